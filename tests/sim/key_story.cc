#include "tests/sim/key_story.h"

#include <algorithm>

namespace paramd {
namespace {

// Of so many pushes one after the other each row is looked at in one.
constexpr size_t kSweep = 64;

}  // namespace

KeyStory::KeyStory(const v1::Variable& variable, size_t rows)
    : ignores_(variable.when_full() == v1::Variable::IGNORE),
      admit_after_(variable.admit_after()),
      expire_after_(variable.expire_after()),
      rows_(rows),
      counters_(rows) {}

void KeyStory::BeginWith(const KeyStory& trained) {
  rows_.clear();
  for (const Row& row : trained.rows_) {
    if (row.key.has_value()) rows_.push_back(row);
  }
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Row& a, const Row& b) { return a.used < b.used; });
  for (Row& row : rows_) row.used = 1;
  rows_.resize(trained.rows_.size());
}

KeyStory::Row* KeyStory::RowOf(size_t key) {
  for (Row& row : rows_) {
    if (row.key == key) return &row;
  }
  return nullptr;
}

KeyStory::Named KeyStory::Push(absl::Span<const uint64_t> mixed, size_t first,
                               uint64_t now) {
  Named named;
  std::vector<size_t> fresh;
  for (size_t key = first; key < first + mixed.size(); ++key) {
    Row* const row = RowOf(key);
    (row != nullptr ? named.kept : fresh).push_back(key);
    if (row != nullptr) row->used = now;
  }
  Expire(now, &named);
  for (const size_t key : fresh) {
    if (admit_after_ > 1 &&
        sketch_.Add(mixed[key - first], absl::MakeSpan(counters_)) <
            admit_after_) {
      ++named.not_admitted;
      continue;
    }
    Row* const row = RowFor(now, &named);
    if (row == nullptr) {
      ++named.ignored;
      continue;
    }
    *row = {key, now};
    named.created.push_back(key);
  }
  return named;
}

void KeyStory::Expire(uint64_t now, Named* named) {
  if (expire_after_ == 0) return;
  const size_t part = rows_.size() / kSweep + 1;
  for (size_t i = 0; i < part; ++i) {
    Row& row = rows_[(now * part + i) % rows_.size()];
    if (!row.key.has_value() || now - row.used <= expire_after_) continue;
    named->lost.push_back(*row.key);
    ++named->expired;
    row = Row();
  }
}

// One without a key, or that of the key unused for longest; the lowest of
// equals.
KeyStory::Row* KeyStory::RowFor(uint64_t now, Named* named) {
  Row* oldest = nullptr;
  for (Row& row : rows_) {
    if (row.used < now && (oldest == nullptr || row.used < oldest->used)) {
      oldest = &row;
    }
  }
  if (oldest == nullptr || !oldest->key.has_value()) return oldest;
  if (ignores_) return nullptr;
  named->lost.push_back(*oldest->key);
  ++named->evicted;
  return oldest;
}

}  // namespace paramd
