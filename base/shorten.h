#ifndef PARAMD_BASE_SHORTEN_H_
#define PARAMD_BASE_SHORTEN_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// `text` for a sentence: of what has more than `most` bytes the first ones,
// whole characters of UTF-8, and "...". What comes out of a file has any
// length; a sentence quotes 200 bytes of one at most.
inline std::string Shortened(absl::string_view text, size_t most = 40) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && end + 4 > most &&
         (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace paramd

#endif  // PARAMD_BASE_SHORTEN_H_
