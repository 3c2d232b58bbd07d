#include "server/core/describe_slices.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "config/fast_rows.h"

namespace paramd {
namespace {

uint64_t RowsOf(const Slice& slice) {
  return slice.rows().end - slice.rows().begin;
}

// Keys that can have a row.
uint64_t CapacityOf(const Slice& slice) {
  return RowsOf(slice) - slice.block_count() * SpareRowsOf(slice.variable());
}

uint64_t MemoryRowsOf(const Slice& slice) {
  const size_t fast = slice.placement().fast_rows;
  return fast > 0 ? fast * slice.block_count() : RowsOf(slice);
}

}  // namespace

void CountTables(const std::vector<Slice*>& slices, TableStatsList* counted) {
  std::map<std::string, v1::TableStats> tables;
  for (Slice* const slice : slices) {
    if (!slice->keyed()) continue;
    v1::TableStats& table = tables[slice->variable().name()];
    table.set_capacity(table.capacity() + CapacityOf(*slice));
    const TableCounts& counts = slice->table_counts();
    table.set_created(table.created() + counts.created);
    table.set_evicted(table.evicted() + counts.evicted);
    table.set_ignored(table.ignored() + counts.ignored);
    table.set_not_admitted(table.not_admitted() + counts.not_admitted);
    table.set_expired(table.expired() + counts.expired);
    table.set_looked_up(table.looked_up() + counts.looked_up);
    table.set_on_disk(table.on_disk() + counts.on_disk);
    table.set_memory_rows(table.memory_rows() + MemoryRowsOf(*slice));
    table.set_keys(table.keys() + counts.keys.Estimate());
  }
  for (auto& [name, table] : tables) {
    table.set_variable(name);
    *counted->Add() = std::move(table);
  }
}

void DescribeTables(const std::vector<Slice*>& slices,
                    TableStatsList* described) {
  std::map<std::string, uint64_t> rows;
  for (Slice* const slice : slices) {
    if (!slice->keyed()) continue;
    for (int b = 0; b < slice->block_count(); ++b) {
      rows[slice->variable().name()] +=
          slice->block(b).CountKeys(slice->row_elements());
    }
  }
  CountTables(slices, described);
  for (v1::TableStats& table : *described) {
    table.set_rows(rows[table.variable()]);
  }
}

void DescribeHottest(
    const std::vector<Slice*>& slices,
    google::protobuf::RepeatedPtrField<v1::SliceStats>* described) {
  constexpr size_t kMost = 10;
  std::vector<const Slice*> hottest(slices.begin(), slices.end());
  const auto end = hottest.begin() + std::min(kMost, hottest.size());
  std::partial_sort(hottest.begin(), end, hottest.end(),
                    [](const Slice* a, const Slice* b) {
                      return a->named_blocks() > b->named_blocks();
                    });
  for (auto slice = hottest.begin(); slice != end; ++slice) {
    if ((*slice)->named_blocks() == 0) return;
    v1::SliceStats* const stats = described->Add();
    stats->set_name((*slice)->TensorName());
    stats->set_named_blocks((*slice)->named_blocks());
  }
}

}  // namespace paramd
