#include "coordinator/core/input_left.h"

#include <algorithm>

namespace paramd {

InputLeft::InputLeft(const v1::SavedInput& left, const Epochs& epochs)
    : InputLeft(epochs) {
  for (const v1::SavedInput::Range& range : left.remaining()) {
    const uint64_t end =
        std::min(range.end(), epochs.ExamplesOf(range.epoch()));
    if (range.begin() >= end) continue;
    left_[range.epoch()].emplace_back(range.begin(), end);
  }
  const uint32_t next = std::max(left.next_epoch(), uint32_t{1});
  for (uint32_t epoch = next; epoch <= epochs.number(); ++epoch) {
    const uint64_t begin = epoch == next ? left.next_offset() : 0;
    const uint64_t end = epochs.ExamplesOf(epoch);
    if (begin < end) left_[epoch].emplace_back(begin, end);
  }
  for (auto& [epoch, ranges] : left_) ranges = Union(std::move(ranges));
}

void InputLeft::Add(const InputLeft& other) {
  for (const auto& [epoch, added] : other.left_) {
    Ranges& ranges = left_[epoch];
    ranges.insert(ranges.end(), added.begin(), added.end());
    ranges = Union(std::move(ranges));
  }
}

void InputLeft::Intersect(const InputLeft& other) {
  for (auto it = left_.begin(); it != left_.end();) {
    const auto found = other.left_.find(it->first);
    if (found != other.left_.end()) {
      it->second = Intersection(it->second, found->second);
    }
    const bool is_empty = found == other.left_.end() || it->second.empty();
    it = is_empty ? left_.erase(it) : std::next(it);
  }
}

void InputLeft::Remove(const v1::SavedInput::Range& range) {
  const auto found = left_.find(range.epoch());
  if (found == left_.end()) return;
  found->second = Without(found->second, range.begin(), range.end());
  if (found->second.empty()) left_.erase(found);
}

InputLeft::Ranges InputLeft::Among(uint32_t epoch, uint64_t begin,
                                   uint64_t end) const {
  const auto found = left_.find(epoch);
  if (found == left_.end() || begin >= end) return {};
  return Intersection(found->second, {{begin, end}});
}

std::pair<uint32_t, uint64_t> InputLeft::Next() const {
  for (uint32_t epoch = epochs_->number(); epoch > 0; --epoch) {
    const auto found = left_.find(epoch);
    if (found == left_.end() ||
        found->second.back().second < epochs_->ExamplesOf(epoch)) {
      return {epoch + 1, 0};
    }
    const uint64_t begin = found->second.back().first;
    if (begin > 0) return {epoch, begin};
  }
  return {1, 0};
}

v1::SavedInput InputLeft::Save(const v1::SavedInput& known) const {
  const std::pair<uint32_t, uint64_t> next =
      std::max(Next(), std::make_pair(known.next_epoch(), known.next_offset()));
  v1::SavedInput saved;
  saved.set_next_epoch(next.first);
  saved.set_next_offset(next.second);
  for (const auto& [epoch, ranges] : left_) {
    for (const auto& [begin, end] : ranges) {
      if (std::make_pair(epoch, begin) >= next) continue;
      v1::SavedInput::Range* const range = saved.add_remaining();
      range->set_epoch(epoch);
      range->set_begin(begin);
      range->set_end(epoch == next.first ? std::min(end, next.second) : end);
    }
  }
  return saved;
}

InputLeft::Ranges InputLeft::Union(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges joined;
  for (const auto& [begin, end] : ranges) {
    if (!joined.empty() && begin <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, end);
    } else {
      joined.emplace_back(begin, end);
    }
  }
  return joined;
}

InputLeft::Ranges InputLeft::Intersection(const Ranges& a, const Ranges& b) {
  Ranges common;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint64_t begin = std::max(a[i].first, b[j].first);
    const uint64_t end = std::min(a[i].second, b[j].second);
    if (begin < end) common.emplace_back(begin, end);
    a[i].second < b[j].second ? ++i : ++j;
  }
  return common;
}

InputLeft::Ranges InputLeft::Without(const Ranges& ranges, uint64_t begin,
                                     uint64_t end) {
  Ranges left;
  for (const auto& range : ranges) {
    const uint64_t before = std::min(range.second, begin);
    const uint64_t after = std::max(range.first, end);
    if (range.first < before) left.emplace_back(range.first, before);
    if (after < range.second) left.emplace_back(after, range.second);
  }
  return left;
}

}  // namespace paramd
