#include "server/core/key_table.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace paramd {
namespace {

// So many keys ahead their rows' numbers are fetched, and twice as many ahead
// their places.
constexpr size_t kAhead = 8;
// At least as many as two for each row, and a power of two.
size_t PlacesFor(size_t rows) {
  size_t places = 2;
  while (places < 2 * rows) places *= 2;
  return places;
}

}  // namespace

KeyPolicy KeyPolicyOf(const v1::Variable& variable) {
  return {.evicts = variable.when_full() == v1::Variable::EVICT,
          .admit_after = variable.admit_after(),
          .expire_after = variable.expire_after(),
          .fast_rows = FastRowsOf(variable)};
}

uint64_t KeyTable::MostBytes(size_t rows) {
  return PlacesFor(rows) * sizeof(uint32_t) + RowQueue::MostBytes(rows);
}

void KeyTable::Build(const Columns& columns) {
  if (!places_.empty()) return;
  places_.assign(PlacesFor(columns.keys.size()), 0);
  free_ = 0;
  for (uint32_t row = 0; row < columns.keys.size(); ++row) {
    if (columns.used[row] == 0) {
      ++free_;
    } else {
      Insert(MixKey(columns.keys[row]), row);
    }
  }
}

void KeyTable::Insert(uint64_t mixed, uint32_t row) {
  size_t place = PlaceOf(mixed);
  while (places_[place] != 0) place = PlaceOf(place + 1);
  places_[place] = row + 1;
}

// What stands after moves up where its own place allows it.
void KeyTable::Remove(uint32_t row, const Columns& columns) {
  size_t hole = PlaceOf(MixKey(columns.keys[row]));
  while (places_[hole] != row + 1) hole = PlaceOf(hole + 1);
  places_[hole] = 0;
  for (size_t at = PlaceOf(hole + 1); places_[at] != 0; at = PlaceOf(at + 1)) {
    const size_t home = PlaceOf(MixKey(columns.keys[places_[at] - 1]));
    // How far it has come from its own place, and how far the hole is back.
    if (PlaceOf(at - home) < PlaceOf(at - hole)) continue;
    places_[hole] = places_[at];
    places_[at] = 0;
    hole = at;
  }
}

uint32_t KeyTable::FindOne(uint64_t mixed, const Columns& columns) const {
  const uint64_t key = UnmixKey(mixed);
  for (size_t place = PlaceOf(mixed); places_[place] != 0;
       place = PlaceOf(place + 1)) {
    const uint32_t row = places_[place] - 1;
    if (columns.keys[row] == key) return row;
  }
  return kNoRow;
}

void KeyTable::FetchPlaces(absl::Span<const uint64_t> mixed) const {
  if (places_.empty()) return;
  for (const uint64_t key : mixed) __builtin_prefetch(&places_[PlaceOf(key)]);
}

void KeyTable::FetchKeys(absl::Span<const uint64_t> mixed,
                         const Columns& columns) const {
  if (places_.empty()) return;
  for (const uint64_t key : mixed) {
    const uint32_t row = places_[PlaceOf(key)];
    if (row > 0) __builtin_prefetch(&columns.keys[row - 1]);
  }
}

void KeyTable::Find(absl::Span<const uint64_t> mixed, const Columns& columns,
                    absl::Span<uint32_t> rows) {
  Build(columns);
  for (size_t i = 0; i < mixed.size(); ++i) {
    if (i + 2 * kAhead < mixed.size()) {
      __builtin_prefetch(&places_[PlaceOf(mixed[i + 2 * kAhead])]);
    }
    if (i + kAhead < mixed.size()) {
      const uint32_t row = places_[PlaceOf(mixed[i + kAhead])];
      __builtin_prefetch(&columns.keys[row > 0 ? row - 1 : 0]);
    }
    rows[i] = FindOne(mixed[i], columns);
  }
}

void KeyTable::FindOrCreate(absl::Span<const uint64_t> mixed, uint64_t now,
                            const KeyPolicy& policy, const Columns& columns,
                            absl::Span<uint32_t> rows,
                            std::vector<size_t>* fresh,
                            std::vector<Move>* moves, TableCounts* counts) {
  Find(mixed, columns, rows);
  Push push = {now,   policy, columns,
               moves, counts, static_cast<uint32_t>(policy.fast_rows)};
  const bool some_are_slow = HasSlowRows(policy, columns);
  if (some_are_slow) FindFreeFastRows(push);
  for (const uint32_t row : rows) {
    if (row != kNoRow) columns.used[row] = now;
  }
  if (policy.expire_after > 0) Expire(push);
  for (size_t i = 0; i < mixed.size(); ++i) {
    if (rows[i] == kNoRow) {
      rows[i] = Create(mixed[i], &push);
      if (rows[i] != kNoRow) fresh->push_back(i);
    } else if (some_are_slow && rows[i] >= policy.fast_rows) {
      const uint32_t fast = TakeFast(&push);
      if (fast == kNoRow) continue;
      MoveRow(rows[i], fast, push);
      push.free_slow = std::min(push.free_slow, rows[i]);
      rows[i] = fast;
    }
  }
}

bool KeyTable::Admits(uint64_t mixed, const Push& push) {
  const uint32_t after = push.policy.admit_after;
  return after <= 1 || sketch_.Add(mixed, push.columns.sketch) >= after;
}

uint32_t KeyTable::Create(uint64_t mixed, Push* push) {
  if (!Admits(mixed, *push)) {
    ++push->counts->not_admitted;
    return kNoRow;
  }
  push->counts->keys.Add(mixed);
  const uint32_t row = HasSlowRows(push->policy, push->columns)
                           ? TakeRowOfSome(push)
                           : TakeRow(push);
  if (row == kNoRow) {
    ++push->counts->ignored;
    return kNoRow;
  }
  --free_;
  push->columns.keys[row] = UnmixKey(mixed);
  push->columns.used[row] = push->now;
  Insert(mixed, row);
  ++push->counts->created;
  return row;
}

// One without a key, if need be of another key.
uint32_t KeyTable::TakeRow(Push* push) {
  if (free_ == 0 && !push->policy.evicts) return kNoRow;
  const uint32_t row = next_.Take(/*least=*/0, push->now, push->columns.used);
  if (row == kNoRow || push->columns.used[row] == 0) return row;
  Free(row, *push);
  ++push->counts->evicted;
  return row;
}

void KeyTable::Free(uint32_t row, const Push& push) {
  Remove(row, push.columns);
  push.columns.keys[row] = push.columns.used[row] = 0;
  ++free_;
}

// Where the index names a row that has a key.
uint32_t& KeyTable::PlaceWith(uint32_t row, const Columns& columns) {
  size_t place = PlaceOf(MixKey(columns.keys[row]));
  while (places_[place] != row + 1) place = PlaceOf(place + 1);
  return places_[place];
}

size_t KeyTable::size(const Columns& columns) {
  Build(columns);
  return columns.keys.size() - free_;
}

// A row without a key comes before all that have one.
void KeyTable::Expire(const Push& push) {
  const size_t rows = push.columns.used.size();
  const size_t part = rows / kSweep + 1;
  const size_t begin = push.now * part % rows;
  for (size_t i = 0; i < part; ++i) {
    const auto row = static_cast<uint32_t>((begin + i) % rows);
    const uint64_t used = push.columns.used[row];
    if (used == 0 || push.now - used <= push.policy.expire_after) continue;
    Free(row, push);
    ++push.counts->expired;
    if (!HasSlowRows(push.policy, push.columns)) {
      next_.Offer(0, row, rows);
    } else if (row < push.policy.fast_rows) {
      AddFreeFast(row);
    }
  }
}

// ---- where not all rows are fast --------------------------------------------

void KeyTable::FindFreeFastRows(const Push& push) {
  if (free_fast_.has_value()) return;
  free_fast_.emplace();
  for (auto row = static_cast<uint32_t>(push.policy.fast_rows); row-- > 0;) {
    if (push.columns.used[row] == 0) free_fast_->push_back(row);
  }
}

uint32_t KeyTable::TakeRowOfSome(Push* push) {
  const absl::Span<uint64_t> used = push->columns.used;
  if (free_ <= push->policy.spare_rows()) {
    if (!push->policy.evicts) return kNoRow;
    // Two, where a checkpoint of a table without spare rows was restored.
    const bool lacks = free_ < push->policy.spare_rows();
    const uint32_t row = EvictOne(push);
    if (row == kNoRow) return kNoRow;
    if (lacks) EvictOne(push);
  }
  const uint32_t fast = TakeFast(push);
  if (fast != kNoRow) return fast;
  while (used[push->free_slow] != 0) ++push->free_slow;
  return push->free_slow;
}

uint32_t KeyTable::EvictOne(Push* push) {
  const uint32_t row = next_.Take(/*least=*/1, push->now, push->columns.used);
  if (row == kNoRow) return kNoRow;
  Free(row, *push);
  ++push->counts->evicted;
  if (row < push->policy.fast_rows) {
    AddFreeFast(row);
    push->all_fast_are_used = false;
  } else {
    push->free_slow = std::min(push->free_slow, row);
  }
  return row;
}

void KeyTable::AddFreeFast(uint32_t row) {
  free_fast_->insert(std::upper_bound(free_fast_->begin(), free_fast_->end(),
                                      row, std::greater<uint32_t>()),
                     row);
}

uint32_t KeyTable::TakeFast(Push* push) {
  if (push->all_fast_are_used) return kNoRow;
  if (free_fast_->empty()) MakeFastRowsFree(*push);
  if (free_fast_->empty()) {
    push->all_fast_are_used = true;
    return kNoRow;
  }
  const uint32_t row = free_fast_->back();
  free_fast_->pop_back();
  return row;
}

void KeyTable::MakeFastRowsFree(const Push& push) {
  if (free_ == 0) return;
  const absl::Span<uint64_t> used = push.columns.used;
  std::vector<std::pair<uint64_t, uint32_t>> oldest;
  for (uint32_t row = 0; row < push.policy.fast_rows; ++row) {
    if (used[row] < push.now) oldest.push_back({used[row], row});
  }
  const size_t wanted = std::min(oldest.size(), push.policy.spare_rows());
  std::nth_element(oldest.begin(), oldest.begin() + wanted, oldest.end());
  oldest.resize(wanted);
  std::sort(oldest.begin(), oldest.end());
  auto free = static_cast<uint32_t>(push.policy.fast_rows);
  for (size_t i = 0; i < oldest.size(); ++i) {
    // Their keys and places lie anywhere.
    if (i + 2 * kAhead < oldest.size()) {
      __builtin_prefetch(&push.columns.keys[oldest[i + 2 * kAhead].second]);
    }
    if (i + kAhead < oldest.size()) {
      const uint64_t key = push.columns.keys[oldest[i + kAhead].second];
      __builtin_prefetch(&places_[PlaceOf(MixKey(key))]);
    }
    const auto& [last, row] = oldest[i];
    while (free < used.size() && used[free] != 0) ++free;
    // There are fewer spare ones where fewer rows were fast before.
    if (free == used.size()) break;
    MoveRow(row, free, push);
    next_.Offer(last, free, used.size());
    free_fast_->push_back(row);
  }
  std::sort(free_fast_->begin(), free_fast_->end(), std::greater<uint32_t>());
}

void KeyTable::MoveRow(uint32_t from, uint32_t to, const Push& push) {
  PlaceWith(from, push.columns) = to + 1;
  push.columns.keys[to] = std::exchange(push.columns.keys[from], 0);
  push.columns.used[to] = std::exchange(push.columns.used[from], 0);
  push.moves->push_back({from, to});
}

}  // namespace paramd
