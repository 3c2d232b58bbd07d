#include "coordinator/core/table_watch.h"

#include <utility>

#include "absl/time/time.h"

#include "proto/table_stats.h"

namespace paramd {
namespace {

constexpr absl::Duration kBetweenNotes = absl::Minutes(1);

}  // namespace

void TableWatch::Told(uint32_t server, const Tables& tables) {
  servers_[server] = tables;
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
  const bool is_soon =
      last_note_.has_value() && now < *last_note_ + kBetweenNotes;
  if (is_soon || !knows_all()) return {};
  uint64_t lost = 0;
  for (const v1::TableStats& table : Together()) {
    lost += table.evicted() + table.ignored();
  }
  // Fewer are those of a server's next life.
  const bool has_grown = lost > noted_;
  noted_ = lost;
  if (!has_grown) return {};
  std::vector<std::string> notes = Warnings();
  if (!notes.empty()) last_note_ = now;
  return notes;
}

}  // namespace paramd
