#include "proto/table_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace paramd {
namespace {

double Percent(uint64_t part, uint64_t of) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(of);
}

// Room for so many keys. Buckets of a table do not fill evenly, and keys are
// counted within a few percent: a tenth more, rounded up to two digits.
uint64_t CapacityFor(uint64_t keys) {
  const double wanted = 1.1 * static_cast<double>(keys);
  const double unit = std::pow(10, std::floor(std::log10(wanted)) - 1);
  return static_cast<uint64_t>(std::ceil(wanted / unit) * unit);
}

}  // namespace

void AddTable(const v1::TableStats& part,
              google::protobuf::RepeatedPtrField<v1::TableStats>* tables) {
  const auto found = std::find_if(
      tables->begin(), tables->end(),
      [&](const auto& table) { return table.variable() == part.variable(); });
  if (found == tables->end()) {
    *tables->Add() = part;
    return;
  }
  v1::TableStats& all = *found;
  all.set_rows(all.rows() + part.rows());
  all.set_capacity(all.capacity() + part.capacity());
  all.set_created(all.created() + part.created());
  all.set_evicted(all.evicted() + part.evicted());
  all.set_ignored(all.ignored() + part.ignored());
  all.set_not_admitted(all.not_admitted() + part.not_admitted());
  all.set_expired(all.expired() + part.expired());
  all.set_memory_rows(all.memory_rows() + part.memory_rows());
  all.set_looked_up(all.looked_up() + part.looked_up());
  all.set_on_disk(all.on_disk() + part.on_disk());
  all.set_keys(all.keys() + part.keys());
}

std::string TableWarning(const v1::TableStats& table) {
  const uint64_t evicted = table.evicted();
  const uint64_t ignored = table.ignored();
  std::string what;
  // A few keys that come and go do no harm.
  if (10 * evicted >= table.created() && evicted > 0 &&
      100 * evicted >= table.capacity()) {
    what = absl::StrFormat(
        "%d of the %d rows that it gave to keys (%.0f %%) were taken from "
        "other keys, and what those had learnt is lost",
        evicted, table.created(), Percent(evicted, table.created()));
  } else if (ignored > 0 && 100 * ignored >= table.looked_up()) {
    what = absl::StrFormat(
        "%d gradients of keys for which no row was left were dropped, where "
        "%d rows were looked up",
        ignored, table.looked_up());
  } else {
    return "";
  }
  return absl::StrFormat(
      "the table %s is too small: %s; it has room for %d keys, and about %d "
      "asked for a row: give its layer a capacity of %d (the job can be "
      "resumed with another one)",
      table.variable(), what, table.capacity(), table.keys(),
      CapacityFor(std::max(table.keys(), table.capacity())));
}

}  // namespace paramd
