#include "process/incarnation.h"

#include <algorithm>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paramd {

uint64_t DrawIncarnation() {
  std::random_device device;
  uint64_t drawn = 0;
  while (drawn == 0) drawn = uint64_t{device()} << 32 | device();
  return drawn;
}

std::string IncarnationText(uint64_t incarnation) {
  return absl::StrCat(absl::Hex(incarnation, absl::kZeroPad16));
}

absl::StatusOr<uint64_t> ParseIncarnation(absl::string_view what,
                                          absl::string_view text) {
  uint64_t incarnation = 0;
  const bool digits = text.size() <= 16 && std::all_of(text.begin(), text.end(),
                                                       absl::ascii_isxdigit);
  if (!digits || !absl::SimpleHexAtoi(text, &incarnation) || incarnation == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is '", text,
                     "': it must be up to 16 hexadecimal digits, and not 0"));
  }
  return incarnation;
}

}  // namespace paramd
