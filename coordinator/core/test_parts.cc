#include "coordinator/core/test_parts.h"

#include <algorithm>
#include <cstddef>
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
    parts_.push_back(part);
  }
}

void TestParts::Lease(const Sessions& able) {
  for (Part& part : parts_) {
    const auto holder = able.find(part.worker);
    if (holder == able.end() || holder->second != part.generation) {
      part.leased = false;
    }
  }
  for (const auto& [worker, generation] : able) {
    if (Held(worker) != nullptr) continue;
    const auto free = std::find_if(
        parts_.begin(), parts_.end(),
        [](const Part& part) { return !part.leased && part.begin < part.end; });
    if (free == parts_.end()) return;
    free->leased = true;
    free->worker = worker;
    free->generation = generation;
  }
}

const TestParts::Part* TestParts::Held(uint32_t worker) const {
  const auto held = std::find_if(
      parts_.begin(), parts_.end(),
      [&](const Part& part) { return part.leased && part.worker == worker; });
  return held == parts_.end() ? nullptr : &*held;
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
  Part& part = parts_[static_cast<size_t>(Held(worker) - parts_.data())];
  part.begin += count;
  part.leased = part.begin < part.end;
  return true;
}

bool TestParts::complete() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.begin == part.end; });
}

v1::MergeBatches TestParts::TakeAll() {
  v1::MergeBatches all;
  for (v1::BatchMetrics& batch : batches_) {
    *all.add_batches() = std::move(batch);
  }
  return all;
}

}  // namespace paramd
