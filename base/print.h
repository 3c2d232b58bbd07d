#ifndef PARAMD_BASE_PRINT_H_
#define PARAMD_BASE_PRINT_H_

#include <cstdio>

#include "absl/strings/string_view.h"

namespace paramd {

// Writes what people read to stdout or stderr. Whatever part of it came from
// outside, no terminal obeys it: the text is escaped as by EscapeControls
// (base/escape.h). Nothing else in the program writes text to these streams,
// but for the log and what moves the cursor (Console).
void Print(absl::string_view text, std::FILE* to = stdout);

}  // namespace paramd

#endif  // PARAMD_BASE_PRINT_H_
