#include "coordinator/core/table_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

#include "proto/table_stats.h"

namespace paramd {
namespace {

constexpr absl::Duration kBetweenNotes = absl::Minutes(1);
// At all servers, each of which says something once a second.
constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

// Rows taken and gradients dropped.
uint64_t LostOf(const TableWatch::Tables& tables) {
  uint64_t lost = 0;
  for (const v1::TableStats& table : tables) {
    lost += table.evicted() + table.ignored();
  }
  return lost;
}

}  // namespace

void TableWatch::Told(uint32_t server, const Tables& tables) {
  Tables& known = servers_[server];
  lost_ += LostOf(tables) - LostOf(known);
  known = tables;
}

TableWatch::Tables TableWatch::Together() const {
  Tables together;
  for (const auto& [server, tables] : servers_) {
    for (const v1::TableStats& table : tables) AddTable(table, &together);
  }
  return together;
}

std::vector<std::string> TableWatch::Warnings() const {
  std::vector<std::string> warnings;
  if (!knows_all()) return warnings;
  for (const v1::TableStats& table : Together()) {
    std::string warning = TableWarning(table);
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }
  return warnings;
}

std::vector<std::string> TableWatch::TakeNotes(Time now) {
  // Fewer are those of a server's next life.
  noted_ = std::min(noted_, lost_);
  if (now < next_look_ || !knows_all() || lost_ == noted_) return {};
  noted_ = lost_;
  std::vector<std::string> notes = Warnings();
  next_look_ = now + (notes.empty() ? kBetweenLooks : kBetweenNotes);
  return notes;
}

}  // namespace paramd
