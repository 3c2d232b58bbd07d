#include "server/core/key_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// So many keys ahead their rows' numbers are fetched, and twice as many ahead
// their places.
constexpr size_t kAhead = 8;
// Of a block's rows, so many are found at a time.
constexpr size_t kCandidateShare = 16;

size_t MostCandidates(size_t rows) { return rows / kCandidateShare + 1; }

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

size_t FastRowsOf(const v1::Variable& variable) {
  const uint64_t rows = variable.shape(0);
  const uint64_t fast = variable.memory_rows();
  if (fast == 0 || fast >= rows) return 0;
  const uint64_t bucket = std::min(rows, BucketRows(variable.shape(1)));
  const auto share = static_cast<unsigned __int128>(fast) * bucket / rows;
  return std::max<size_t>(1, static_cast<size_t>(share));
}

uint64_t KeyTable::MostBytes(size_t rows) {
  return PlacesFor(rows) * sizeof(uint32_t) + 2 * RowQueue::MostBytes(rows);
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

// What stands behind moves up where its own place allows it.
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
                            std::vector<Swap>* swaps, TableCounts* counts) {
  Find(mixed, columns, rows);
  for (const uint32_t row : rows) {
    if (row != kNoRow) columns.used[row] = now;
  }
  if (policy.expire_after > 0) Expire(now, policy, columns, counts);
  for (size_t i = 0; i < mixed.size(); ++i) {
    if (rows[i] != kNoRow) continue;
    rows[i] = Create(mixed[i], now, policy, columns, counts);
    if (rows[i] != kNoRow) fresh->push_back(i);
  }
  if (policy.fast_rows > 0 && policy.fast_rows < columns.used.size()) {
    Hasten(now, policy.fast_rows, columns, rows, swaps);
  }
}

uint32_t KeyTable::Create(uint64_t mixed, uint64_t now, const KeyPolicy& policy,
                          const Columns& columns, TableCounts* counts) {
  if (policy.admit_after > 1 &&
      sketch_.Add(mixed, columns.sketch) < policy.admit_after) {
    ++counts->not_admitted;
    return kNoRow;
  }
  const uint32_t row = free_ > 0 || policy.evicts
                           ? next_.Take(now, columns.used)
                           : kNoRow;
  if (row == kNoRow) {
    ++counts->ignored;
    return kNoRow;
  }
  if (columns.used[row] == 0) {
    --free_;
  } else {
    Remove(row, columns);
    ++counts->evicted;
  }
  columns.keys[row] = UnmixKey(mixed);
  columns.used[row] = now;
  Insert(mixed, row);
  ++counts->created;
  return row;
}

// Where the index names a row that has a key.
uint32_t& KeyTable::PlaceWith(uint32_t row, const Columns& columns) {
  size_t place = PlaceOf(MixKey(columns.keys[row]));
  while (places_[place] != row + 1) place = PlaceOf(place + 1);
  return places_[place];
}

void KeyTable::Hasten(uint64_t now, size_t fast_rows, const Columns& columns,
                      absl::Span<uint32_t> rows, std::vector<Swap>* swaps) {
  for (uint32_t& row : rows) {
    if (row == kNoRow || row < fast_rows) continue;
    const uint32_t fast = next_fast_.Take(now, columns.used.first(fast_rows));
    if (fast == kNoRow) return;
    uint32_t& place = PlaceWith(row, columns);
    if (columns.used[fast] > 0) PlaceWith(fast, columns) = row + 1;
    place = fast + 1;
    std::swap(columns.keys[row], columns.keys[fast]);
    std::swap(columns.used[row], columns.used[fast]);
    next_.Offer(columns.used[row], row, columns.used.size());
    swaps->push_back({row, fast});
    row = fast;
  }
}

size_t KeyTable::size(const Columns& columns) {
  Build(columns);
  return columns.keys.size() - free_;
}

uint64_t RowQueue::MostBytes(size_t rows) {
  return MostCandidates(rows) * sizeof(Candidate);
}

// Uses only ever rise. So what was not among the first when they were found is
// not before one of them that has not been used since.
uint32_t RowQueue::Take(uint64_t now, absl::Span<const uint64_t> used) {
  for (bool found = false;; found = true) {
    while (next_ < candidates_.size()) {
      const Candidate candidate = candidates_[next_++];
      if (used[candidate.row] == candidate.used) return candidate.row;
    }
    if (found) return kNoRow;
    Find(now, used);
  }
}

void RowQueue::Find(uint64_t now, absl::Span<const uint64_t> used) {
  candidates_.clear();
  next_ = 0;
  for (uint32_t row = 0; row < used.size(); ++row) {
    if (used[row] < now) candidates_.push_back({used[row], row});
  }
  bound_ = {now, 0};
  const size_t wanted = MostCandidates(used.size());
  if (candidates_.size() > wanted) {
    std::nth_element(candidates_.begin(), candidates_.begin() + wanted,
                     candidates_.end(), IsEarlier);
    bound_ = candidates_[wanted];
    candidates_.resize(wanted);
    candidates_.shrink_to_fit();
  }
  std::sort(candidates_.begin(), candidates_.end(), IsEarlier);
}

// It joins the candidates, unless rows that are no candidates come before it.
void RowQueue::Offer(uint64_t used, uint32_t row, size_t rows) {
  const Candidate offered = {used, row};
  if (!IsEarlier(offered, bound_)) return;
  candidates_.erase(candidates_.begin(),
                    candidates_.begin() + static_cast<ptrdiff_t>(next_));
  next_ = 0;
  candidates_.insert(std::upper_bound(candidates_.begin(), candidates_.end(),
                                      offered, IsEarlier),
                     offered);
  // No more than Find finds, however many are offered.
  if (candidates_.size() <= MostCandidates(rows)) return;
  bound_ = candidates_.back();
  candidates_.pop_back();
}

bool RowQueue::IsEarlier(const Candidate& a, const Candidate& b) {
  return std::tie(a.used, a.row) < std::tie(b.used, b.row);
}

void KeyTable::Expire(uint64_t now, const KeyPolicy& policy,
                      const Columns& columns, TableCounts* counts) {
  const size_t rows = columns.used.size();
  const size_t part = rows / kSweep + 1;
  const size_t begin = now * part % rows;
  for (size_t i = 0; i < part; ++i) {
    const auto row = static_cast<uint32_t>((begin + i) % rows);
    if (columns.used[row] == 0 ||
        now - columns.used[row] <= policy.expire_after) {
      continue;
    }
    Remove(row, columns);
    columns.keys[row] = columns.used[row] = 0;
    ++free_;
    ++counts->expired;
    next_.Offer(0, row, rows);
    if (row < policy.fast_rows) next_fast_.Offer(0, row, policy.fast_rows);
  }
}

}  // namespace paramd
