#include "cli/commands/chosen_recompute.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

std::string RangeText(const std::pair<std::string, std::string>& range) {
  return range.first == range.second
             ? range.first
             : absl::StrCat(range.first, " to ", range.second);
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
  for (size_t s = 0; s < stages.size(); ++s) {
    const ChosenRecompute& stage = stages[s];
    const std::string again = absl::StrJoin(
        stage.ranges, "; ",
        [](std::string* out, const std::pair<std::string, std::string>& range) {
          absl::StrAppend(out, RangeText(range));
        });
    rows.push_back(
        {absl::StrCat(s), absl::StrCat(stage.live, " x ", stage.examples),
         Grouped(stage.budget_bytes), Grouped(stage.bytes_without),
         Grouped(stage.bytes),
         absl::StrFormat("+%.1f %%",
                         stage.flops == 0
                             ? 0.0
                             : 100.0 * static_cast<double>(stage.flops_again) /
                                   static_cast<double>(stage.flops)),
         again.empty() ? "nothing" : again});
  }
  return absl::StrCat("\nWhat memory.activation_budget_bytes comes to:\n",
                      Table(rows));
}

}  // namespace paramd
