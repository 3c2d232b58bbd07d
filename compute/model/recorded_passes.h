#ifndef PARAMD_COMPUTE_MODEL_RECORDED_PASSES_H_
#define PARAMD_COMPUTE_MODEL_RECORDED_PASSES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "compute/device/device.h"
#include "compute/device/device_link.h"
#include "compute/model/layer.h"

namespace paramd {

// Passes over layers that a device has recorded, in place of their calls where
// those would be the same: of as many examples, with the same numbers, in the
// same memory. A recording is of pieces, between which a network does what
// can't be recorded: weights are brought, gradients sent. So the host gives the
// device a piece at a time, not a kernel.
//
//   if (!passes.Replay(pass, at)) walk(at);
//   ...
//   passes.Record(pass, walk, cuts);  // If it is worth it.
//
// A pass is recorded when it comes a second time, and so the device has all
// that its calls need. All recordings are dropped once the device was asked for
// more memory, for then its own may be elsewhere. Of the same passes, one after
// the fourth allocates nothing. Not thread-safe.
class RecordedPasses {
 public:
  // At a variable of the layers, of which there is something to do.
  using At = absl::FunctionRef<void(size_t variable)>;
  // Calls layers, and `at` between them.
  using Walk = absl::FunctionRef<void(At at)>;

  // So many recordings are made before any must have been of use; then another
  // one only if each was replayed so often, on average.
  static constexpr uint64_t kAtFirst = 16;
  static constexpr uint64_t kReplaysEach = 8;

  // `device` outlives it.
  explicit RecordedPasses(Device* device);

  // Where each example of a pass stands in the epoch's order: `offsets`, or,
  // where a recording would have the first one's place for a number, all of
  // them. Valid until the next call.
  absl::Span<const uint64_t> OffsetsOf(absl::Span<const uint64_t> offsets,
                                       const Layer::Context& context);

  // Computes the pass, if it is recorded: as a walk over it would, which is the
  // caller's where this is false. Without output_gradient it is a forward pass.
  // REQUIRES: what a walk calls follows from the pass, whose context has the
  // offsets that OffsetsOf gave.
  bool Replay(const Layer::BackwardPass& pass, At at);
  // Has the pass recorded that Replay was called with last, if there is use for
  // it; it is not computed. REQUIRES: `walk` is the caller's; no device sums
  // with others, for a recording needs memory; `at` does nothing at a variable
  // where `cuts` is false.
  void Record(const Layer::BackwardPass& pass, Walk walk,
              absl::FunctionRef<bool(size_t variable)> cuts);

 private:
  static constexpr size_t kMost = 32;
  static constexpr size_t kNone = ~size_t{0};

  // Null: nothing is computed before `at` is called at the variable.
  struct Piece {
    std::unique_ptr<Recording> calls;
    size_t at = kNone;
  };
  struct Known {
    std::vector<uint64_t> key;
    uint64_t last_used = 0;
    std::vector<Piece> pieces;  // None: it is not recorded.
  };

  // Of all that decides what is called.
  void SetKey(const Layer::BackwardPass& pass);
  // The one with the key; else the one that was used longest ago becomes it.
  Known* Find();

  Device& device_;
  DeviceLink* link_;  // Null: it does not record.
  std::array<Known, kMost> known_;
  std::vector<uint64_t> key_;
  std::vector<uint64_t> offsets_;
  uint64_t allocations_ = 0;  // The device's, when known_ was right.
  uint64_t used_ = 0;
  Known* due_ = nullptr;  // What Record is for.
  uint64_t recorded_ = 0;
  uint64_t replayed_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_RECORDED_PASSES_H_
