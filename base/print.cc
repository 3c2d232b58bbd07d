#include "base/print.h"

#include <string>

#include "base/escape.h"

namespace paramd {

void Print(absl::string_view text, std::FILE* to) {
  const std::string escaped = EscapeControls(text);
  std::fwrite(escaped.data(), 1, escaped.size(), to);
}

}  // namespace paramd
