#ifndef PARAMD_CONFIG_SETTINGS_PAGE_H_
#define PARAMD_CONFIG_SETTINGS_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// `page` with "@settings@" replaced by tables of all settings in Markdown, one
// for the top level and one for each object, made from config.proto.
std::string FillSettings(absl::string_view page);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTINGS_PAGE_H_
