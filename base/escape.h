#ifndef PARAMD_BASE_ESCAPE_H_
#define PARAMD_BASE_ESCAPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// `text` without what a terminal would obey, for text that a stranger may have
// sent: control characters (C0 but line feed and tab, DEL, and C1 in UTF-8) and
// bytes that are no UTF-8 become "\xNN". Everything else stays.
std::string EscapeControls(absl::string_view text);

// The same for what is to stand in one line among other text: line feeds and
// tabs become "\n" and "\t" too.
std::string EscapeLine(absl::string_view text);

// That line as text or the value of an attribute in XML, such as SVG.
std::string EscapeXml(absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_BASE_ESCAPE_H_
