#include "cli/commands/chosen_recompute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

using Ranges = std::vector<std::pair<std::string, std::string>>;

std::string RangesText(const Ranges& ranges) {
  if (ranges.empty()) return "nothing";
  return absl::StrJoin(ranges, "; ",
                       [](std::string* out, const Ranges::value_type& range) {
                         absl::StrAppend(out, range.first);
                         if (range.first == range.second) return;
                         absl::StrAppend(out, " to ", range.second);
                       });
}

}  // namespace

std::string Grouped(uint64_t number) {
  if (number < 1000) return absl::StrCat(number);
  return absl::StrCat(Grouped(number / 1000), ",",
                      absl::Dec(number % 1000, absl::kZeroPad3));
}

std::string DescribeChosen(absl::Span<const ChosenRecompute> stages) {
  if (stages.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"stage", "examples kept", "budget", "bytes without", "bytes",
       "forward work", "computed again"}};
  const bool swaps = std::any_of(
      stages.begin(), stages.end(),
      [](const ChosenRecompute& one) { return !one.swapped.empty(); });
  if (swaps) {
    rows.front().insert(rows.front().end(), {"swapped", "bytes of a batch"});
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    const ChosenRecompute& stage = stages[s];
    rows.push_back(
        {absl::StrCat(s), absl::StrCat(stage.live, " x ", stage.examples),
         Grouped(stage.budget_bytes), Grouped(stage.bytes_without),
         Grouped(stage.bytes),
         absl::StrFormat("+%.1f %%",
                         stage.flops == 0
                             ? 0.0
                             : 100.0 * static_cast<double>(stage.flops_again) /
                                   static_cast<double>(stage.flops)),
         RangesText(stage.ranges)});
    if (!swaps) continue;
    rows.back().push_back(RangesText(stage.swapped));
    rows.back().push_back(Grouped(stage.swapped_bytes));
  }
  return absl::StrCat("\nWhat memory.activation_budget_bytes comes to:\n",
                      Table(rows));
}

}  // namespace paramd
