#ifndef PARAMD_PROCESS_OBSERVE_STATUS_PAGE_TEXT_H_
#define PARAMD_PROCESS_OBSERVE_STATUS_PAGE_TEXT_H_

#include <string>

namespace paramd {

// The status page: one HTML file that loads nothing but /status.json.
const std::string& StatusPageHtml();

// The header fields it is served with. They let a browser run this script and
// no other, so that no text in a status can become one.
const std::string& StatusPageHeader();

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_STATUS_PAGE_TEXT_H_
