#include "tests/sim/faults.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paramd {

Faults Faults::Draw(RandomStream* random) {
  Faults faults;
  faults.longest_delay = absl::Microseconds(100 << random->Below(8));
  const uint64_t kind = random->Below(8);
  if (kind == 0) return faults;
  // One kind alone, or each with a chance of its own.
  const auto draw = [&](uint64_t alone, double most) {
    if (kind <= 5) return kind == alone ? most : 0.0;
    return random->Chance(0.3) ? 0.0 : most * random->Uniform();
  };
  faults.straggle = draw(1, 0.1);
  faults.lose_request = draw(2, 0.15);
  faults.lose_reply = draw(3, 0.15);
  faults.duplicate = draw(4, 0.2);
  faults.ghost = draw(5, 0.1);
  faults.second_reply = random->Chance(0.5) ? 0.1 : 0;
  return faults;
}

std::string Faults::ToString() const {
  std::string text =
      absl::StrCat("longest_delay=", absl::FormatDuration(longest_delay));
  const auto add = [&](absl::string_view name, double chance) {
    if (chance > 0) absl::StrAppend(&text, " ", name, "=", chance);
  };
  add("straggle", straggle);
  add("lose_request", lose_request);
  add("lose_reply", lose_reply);
  add("duplicate", duplicate);
  add("ghost", ghost);
  add("second_reply", second_reply);
  return text;
}

void FaultCounts::Count(absl::string_view fault, absl::string_view type) {
  ++counts_[absl::StrCat(fault, " ", type)];
}

void FaultCounts::Add(const FaultCounts& other) {
  for (const auto& [key, count] : other.counts_) counts_[key] += count;
}

uint64_t FaultCounts::Of(absl::string_view fault,
                         absl::string_view type) const {
  const auto found = counts_.find(absl::StrCat(fault, " ", type));
  return found == counts_.end() ? 0 : found->second;
}

uint64_t FaultCounts::OfType(absl::string_view type) const {
  uint64_t sum = 0;
  for (const auto& [key, count] : counts_) {
    if (absl::EndsWith(key, absl::StrCat(" ", type))) sum += count;
  }
  return sum;
}

std::string FaultCounts::ToString() const {
  std::string text;
  for (const auto& [key, count] : counts_) {
    absl::StrAppend(&text, key, " ", count, "\n");
  }
  return text;
}

}  // namespace paramd
