#include "process/observe/top_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/escape.h"
#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

using Process = v1::StatusPage::Process;

constexpr std::pair<TopOrder, const char*> kTopOrders[] = {
    {TopOrder::kWorst, "worst"},
    {TopOrder::kName, "name"},
    {TopOrder::kRate, "rate"},
    {TopOrder::kMemory, "memory"},
};
// Below the table, where there is room.
constexpr int kEventRows = 5;

std::vector<const Process*> InOrder(const v1::StatusPage& page,
                                    TopOrder order) {
  std::vector<const Process*> all;
  for (const Process& process : page.processes()) all.push_back(&process);
  std::stable_sort(
      all.begin(), all.end(), [&](const Process* a, const Process* b) {
        switch (order) {
          case TopOrder::kWorst:
            return false;  // As the page has them.
          case TopOrder::kName:
            return a->name() < b->name();
          case TopOrder::kRate:
            return a->examples_per_second() > b->examples_per_second();
          case TopOrder::kMemory:
            return a->memory_bytes() > b->memory_bytes();
        }
        return false;
      });
  return all;
}

}  // namespace

absl::string_view TopOrderName(TopOrder order) {
  return kTopOrders[static_cast<size_t>(order)].second;
}

absl::optional<TopOrder> TopOrderNamed(absl::string_view name) {
  for (const auto& [order, called] : kTopOrders) {
    if (name == called) return order;
  }
  return absl::nullopt;
}

TopOrder NextTopOrder(TopOrder order) {
  return kTopOrders[(static_cast<size_t>(order) + 1) % std::size(kTopOrders)]
      .first;
}

std::string RenderTop(const v1::StatusPage& page, TopOrder order, int columns,
                      int rows) {
  std::vector<std::string> lines = {EscapeLine(
      page.job().empty() ? page.verdict()
                         : absl::StrCat(page.job(), ": ", page.verdict()))};
  std::vector<std::string> figures;
  for (const auto& figure : page.figures()) {
    figures.push_back(absl::StrCat(
        figure.level() == v1::StatusPage::GOOD ? "" : "! ", figure.name(), " ",
        figure.value(), " (", figure.note(), ")"));
  }
  lines.push_back(EscapeLine(absl::StrJoin(figures, " · ")));
  lines.emplace_back();
  std::vector<std::vector<std::string>> table = {
      {"", "process", "state", "heard", ""}};
  for (const Process* const process : InOrder(page, order)) {
    table.push_back(
        {process->level() == v1::StatusPage::GOOD ? "" : "!", process->name(),
         process->state(), process->heard(),
         process->waits().empty() ? process->figures() : process->waits(0)});
  }
  for (const absl::string_view line :
       absl::StrSplit(Table(std::move(table)), '\n', absl::SkipEmpty())) {
    lines.emplace_back(line);
  }
  if (page.processes_left_out() > 0) {
    lines.push_back(absl::StrCat("and ", page.processes_left_out(), " more"));
  }
  std::vector<std::string> events;
  for (int i = std::max(0, page.events_size() - kEventRows);
       i < page.events_size(); ++i) {
    events.push_back(EscapeLine(page.events(i).text()));
  }
  const std::string last =
      absl::StrCat("sorted by ", TopOrderName(order), " · o: another order · ",
                   "p: pause · q: quit");
  if (rows > 0) {
    // The last row tells of keys; the events stand above it.
    const int below =
        1 + (events.empty() ? 0 : 1 + static_cast<int>(events.size()));
    const int kept = std::max(rows - below, std::min(rows - 1, 4));
    if (static_cast<int>(lines.size()) > kept) lines.resize(std::max(kept, 0));
    if (static_cast<int>(lines.size()) + below > rows) events.clear();
  }
  if (!events.empty()) {
    lines.emplace_back();
    lines.insert(lines.end(), events.begin(), events.end());
  }
  if (rows > 0) lines.push_back(last);
  for (std::string& line : lines) line = CutLine(line, columns);
  return absl::StrCat(absl::StrJoin(lines, "\n"), rows > 0 ? "" : "\n");
}

}  // namespace paramd
