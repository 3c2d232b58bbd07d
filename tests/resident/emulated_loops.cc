#include "tests/resident/emulated_loops.h"

#include <cstring>

#include "server/core/optimizer_kernels.h"
#include "server/core/optimizers/loops.h"

namespace paramd {
namespace {

template <typename Loop, bool kAdjusted>
void RunElements(const LoopCall& call) {
  const auto constants = call.ConstantsOf<Loop>();
  for (size_t i = 0; i < call.count; ++i) {
    RunElement<Loop, kAdjusted>(constants, call.adjustment, call.gradient, i,
                                call.arrays);
  }
}

}  // namespace

EmulatedLoops::EmulatedLoops(const Options& options)
    : waits_(options.waits),
      memory_(std::make_shared<EmulatedUnifiedMemory>(options.bytes)),
      arena_(BufferArena::Create(memory_->bytes(), EmulatedUnifiedMemory::kPage,
                                 memory_)),
      accelerator_(options.accelerator),
      stream_(accelerator_.MakeStream()),
      done_(accelerator_.MakeEvent()) {}

std::shared_ptr<void> EmulatedLoops::Hold() {
  struct Gate {
    Mutex mutex;
    CondVar changed;
    bool is_open ABSL_GUARDED_BY(mutex) = false;
  };
  const auto gate = std::make_shared<Gate>();
  const MutexLock lock(&mutex_);
  accelerator_.Launch(stream_, [gate] {
    MutexLock inner(&gate->mutex);
    while (!gate->is_open) gate->changed.Wait(&gate->mutex);
  });
  return std::shared_ptr<void>(nullptr, [gate](void*) {
    const MutexLock inner(&gate->mutex);
    gate->is_open = true;
    gate->changed.NotifyAll();
  });
}

Buffer EmulatedLoops::Allocate(size_t size) {
  Buffer made = arena_->Allocate(size);
  if (!made.empty()) memory_->Return(made.bytes().data(), size);
  return made;
}

bool EmulatedLoops::Has(absl::Span<const std::byte> bytes) const {
  return arena_->Has(bytes);
}

void EmulatedLoops::Do(const Written& written, std::function<void()> work) {
  ++calls_;
  const MutexLock lock(&mutex_);
  for (const auto& [first, bytes] : written) {
    memory_->BeginWriting(first, bytes);
  }
  accelerator_.Launch(stream_, [this, written, work = std::move(work)] {
    work();
    for (const auto& one : written) memory_->EndWriting(one.first);
  });
  if (!waits_) return;
  accelerator_.Record(done_, stream_);
  accelerator_.HostWait(done_);
}

void EmulatedLoops::Copy(absl::Span<const std::byte> from, std::byte* to) {
  std::byte* const target = memory_->Inside(to);
  const std::byte* const source = memory_->Inside(from.data());
  const size_t bytes = from.size();
  if (!waits_) std::memset(target, 0xff, bytes);  // Not there yet: NaN.
  Do({{to, bytes}},
     [target, source, bytes] { std::memcpy(target, source, bytes); });
}

void EmulatedLoops::Fetch(absl::Span<const std::byte> bytes) {
  fetched_bytes_ += bytes.size();
  memory_->Return(bytes.data(), bytes.size());
}

RuleArrays EmulatedLoops::Inside(const RuleArrays& arrays) const {
  const auto in = [&](auto* array) {
    return reinterpret_cast<decltype(array)>(
        array == nullptr ? nullptr : memory_->Inside(array));
  };
  RuleArrays inside = {};
  inside.values = in(arrays.values);
  inside.new_values = in(arrays.new_values);
  for (size_t s = 0; s < RuleArrays::kMostSlots; ++s) {
    inside.slots[s] = in(arrays.slots[s]);
    inside.new_slots[s] = in(arrays.new_slots[s]);
  }
  return inside;
}

void EmulatedLoops::Run(const LoopCall& call) {
  const size_t bytes = call.count * sizeof(float);
  Written written = {{call.arrays.new_values, bytes}};
  for (float* const slot : call.arrays.new_slots) {
    if (slot != nullptr) written.emplace_back(slot, bytes);
  }
  LoopCall inside = call;
  inside.arrays = Inside(call.arrays);
  std::vector<std::byte> staged;
  if (Has({call.gradient, bytes})) {
    inside.gradient = memory_->Inside(call.gradient);
  } else {
    staged.assign(call.gradient, call.gradient + bytes);
    staged_bytes_ += bytes;
  }
  Do(written, [inside, staged = std::move(staged)] {
    LoopCall run = inside;
    if (!staged.empty()) run.gradient = staged.data();
    WithLoop(run.loop, [&](auto loop) {
      using Loop = decltype(loop);
      run.adjusted ? RunElements<Loop, true>(run)
                   : RunElements<Loop, false>(run);
    });
  });
}

bool EmulatedLoops::AllFinite(const std::byte* gradient, size_t count) {
  bool finite = true;
  Do({}, [&finite, in = memory_->Inside(gradient), count] {
    for (size_t i = 0; i < count; ++i) finite = IsFiniteAt(in, i) && finite;
  });
  return finite;
}

void EmulatedLoops::AddSquares(const std::byte* gradient, size_t count,
                               size_t first, double* sums) {
  Do({}, [sums, in = memory_->Inside(gradient), count, first] {
    constexpr size_t kLanes = OptimizerKernels::kSumLanes;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] = AddSquaresOf(lane, kLanes, in, count, first, sums[lane]);
    }
  });
}

}  // namespace paramd
