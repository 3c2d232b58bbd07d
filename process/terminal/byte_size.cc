#include "process/terminal/byte_size.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

// 0 if there is no such unit.
double BytesOfUnit(absl::string_view unit) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"", 1},
      {"b", 1},
      {"kb", 1e3},
      {"mb", 1e6},
      {"gb", 1e9},
      {"tb", 1e12},
      {"kib", 1024},
      {"mib", 1048576.0},
      {"gib", 1073741824.0},
      {"tib", 1099511627776.0}};
  for (const auto& [name, bytes] : kUnits) {
    if (name == unit) return bytes;
  }
  return 0;
}

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789.");
  const absl::string_view number = text.substr(0, digits);
  const std::string unit = absl::AsciiStrToLower(absl::StripAsciiWhitespace(
      digits == absl::string_view::npos ? "" : text.substr(digits)));
  double count = 0;
  if (absl::SimpleAtod(number, &count)) {
    const double bytes = std::floor(count * BytesOfUnit(unit));
    if (bytes >= 1 && bytes < 0x1p63) return static_cast<uint64_t>(bytes);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a size of at least a byte, such as 5GB or 500MiB"));
}

}  // namespace paramd
