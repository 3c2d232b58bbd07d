#include "config/consistency.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

// Far beyond any use, and safe to add to a clock.
constexpr uint64_t kLargestBound = 1000000000;

}  // namespace

absl::StatusOr<v1::Consistency> ParseStaleness(absl::string_view staleness) {
  v1::Consistency consistency;
  uint64_t bound = 0;
  if (staleness == "async") {
    consistency.set_mode(v1::Consistency::ASYNC);
  } else if (staleness == "sync") {
    consistency.set_mode(v1::Consistency::SYNC);
  } else if (absl::SimpleAtoi(staleness, &bound) && bound <= kLargestBound) {
    consistency.set_mode(v1::Consistency::BOUNDED);
    consistency.set_bound(bound);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be \"async\", \"sync\" or a number of pushes from 0 to ",
        kLargestBound, ", such as \"8\""));
  }
  return consistency;
}

std::string StalenessText(const v1::Consistency& consistency) {
  switch (consistency.mode()) {
    case v1::Consistency::BOUNDED:
      return absl::StrCat(consistency.bound());
    case v1::Consistency::SYNC:
      return "sync";
    default:
      return "async";
  }
}

}  // namespace paramd
