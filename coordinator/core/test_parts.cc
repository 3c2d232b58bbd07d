#include "coordinator/core/test_parts.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "proto/refusal.h"
#include "proto/test_part.h"

namespace paramd {
namespace {

// So that a slow worker has fewer, and little is lost with one.
constexpr uint64_t kPartsPerWorker = 4;

}  // namespace

TestParts::TestParts(uint64_t term, uint64_t evaluation, uint64_t batches,
                     uint32_t workers)
    : term_(term), evaluation_(evaluation), batches_(batches) {
  const uint64_t most = kPartsPerWorker * std::max<uint32_t>(workers, 1);
  const uint64_t size = std::max<uint64_t>((batches + most - 1) / most, 1);
  for (uint64_t begin = 0; begin < batches; begin += size) {
    Part part;
    part.begin = begin;
    part.end = std::min(begin + size, batches);
    free_.insert(parts_.size());
    parts_.push_back(part);
  }
}

void TestParts::Lease(const Sessions& able) {
  for (auto it = held_.begin(); it != held_.end();) {
    const auto& [worker, index] = *it;
    const auto holder = able.find(worker);
    const bool is_held =
        holder != able.end() && holder->second == parts_[index].generation;
    if (!is_held) free_.insert(index);
    it = is_held ? std::next(it) : held_.erase(it);
  }
  for (const auto& [worker, generation] : able) {
    if (free_.empty()) return;
    if (held_.contains(worker)) continue;
    const size_t first = *free_.begin();
    free_.erase(free_.begin());
    held_[worker] = first;
    parts_[first].generation = generation;
  }
}

const TestParts::Part* TestParts::Held(uint32_t worker) const {
  const auto held = held_.find(worker);
  return held == held_.end() ? nullptr : &parts_[held->second];
}

absl::optional<v1::TestPart> TestParts::Of(uint32_t worker) const {
  const Part* const held = Held(worker);
  if (held == nullptr) return absl::nullopt;
  v1::TestPart part;
  part.set_term(term_);
  part.set_evaluation(evaluation_);
  part.set_begin(held->begin);
  part.set_end(held->end);
  return part;
}

bool TestParts::Take(uint32_t worker, const v1::TestedBatches& tested) {
  const auto left = Of(worker);
  const auto count = static_cast<uint64_t>(tested.batches_size());
  if (!left.has_value() || !SamePart(*left, tested.part()) || count == 0 ||
      count > left->end() - left->begin()) {
    return false;
  }
  std::copy(tested.batches().begin(), tested.batches().end(),
            batches_.begin() + static_cast<std::ptrdiff_t>(left->begin()));
  const auto held = held_.find(worker);
  Part& part = parts_[held->second];
  part.begin += count;
  if (part.begin == part.end) held_.erase(held);
  return true;
}

bool TestParts::complete() const { return held_.empty() && free_.empty(); }

v1::MergeBatches TestParts::TakeAll() {
  v1::MergeBatches all;
  for (v1::BatchMetrics& batch : batches_) {
    *all.add_batches() = std::move(batch);
  }
  return all;
}

}  // namespace paramd
