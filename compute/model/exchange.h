#ifndef PARAMD_COMPUTE_MODEL_EXCHANGE_H_
#define PARAMD_COMPUTE_MODEL_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "compute/device/device.h"
#include "compute/device/device_link.h"
#include "compute/model/gradient_buckets.h"
#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "tensor/tensor.h"

namespace paramd {

// Memory of a device, or pinned memory of the host, that grows.
struct GrowingMemory {
  Device::Memory data;
  uint64_t bytes = 0;

  std::byte* get() const { return static_cast<std::byte*>(data.get()); }
};

// Where a network's values cross between host memory and its device: weights,
// input, labels and the places of examples there, what a loss says of each row
// back, or whole outputs where somebody wants them, gradients back. Where the
// device's memory is the host's, what is handed in is what the device gets, and
// nothing is copied or waited for. Numbers cross as float32; a device whose
// layers hand on two bytes converts input and outputs.
//
// Else each variable has memory on the device and a twin of it in pinned host
// memory: of weights a block crosses only if it is not what crossed last, and
// gradients cross while earlier layers are computed. Among replicas they may be
// summed before that on their devices, several together. Of the same sizes, a
// step after the first allocates nothing.
//
// What is handed in in pinned memory needs no twin: weights cross from there,
// all of them, and gradients to there. What is in the device's unified memory
// crosses in neither direction: weights are read where they are, and gradients
// are copied there on the device.
//
// After each of Place... and Reserve... `device->status()` says whether there
// was memory; until then nothing is to be called on what they gave. Not
// thread-safe: of the network's thread.
class Exchange {
 public:
  // Weights cross in blocks of so many values.
  static constexpr size_t kBlock = size_t{1} << 18;

  // `device` outlives it.
  Exchange(Device* device, size_t variables, size_t inputs = 1);

  // See ReplicatedModel::JoinReplicas.
  absl::Status Join(const ReplicaGroup& group);

  // A pass begins: the one before it has ended, or Finish was called.
  void Begin();
  // What becomes of gradients from now on. REQUIRES: kAlone, or it has joined.
  // `holds_sums`: sums begin at EndSending, and not as soon as there are enough
  // gradients. What allocates, or has a kernel loaded, may wait for all that a
  // device does, and must not while that waits for other replicas; so it is for
  // passes that do what none has done before.
  void SetSharing(Sharing sharing, bool holds_sums) {
    sharing_ = sharing;
    holds_sums_ = holds_sums;
  }
  // Where the weights, the gradient of variable `v` will be for the device:
  // weights that need not cross stay where they are.
  const float* PlaceWeights(size_t v, absl::Span<const float> values);
  float* PlaceGradient(size_t v, absl::Span<float> values);
  // What the device computes from now on sees these weights, where
  // PlaceWeights said. REQUIRES: it was called in this pass.
  void BringWeights(size_t v, absl::Span<const float> values);
  // Input `i` of the pass. `is_ahead`: it is what BringAhead was called with
  // last.
  ConstTensor BringInput(size_t i, const ConstTensor& input,
                         bool is_ahead = false);
  // Memory for an input of so many bytes beside this pass's, if there is twice
  // as much.
  void ReserveAhead(size_t i, uint64_t bytes);
  // The input of a later pass begins to cross, beside what is computed. False
  // if nothing crosses, or no memory for that many bytes was reserved.
  bool BringAhead(size_t i, const ConstTensor& input);
  absl::Span<const uint64_t> BringOffsets(absl::Span<const uint64_t> offsets);

  // The outputs as the host may read them, float32 or float64; valid until the
  // next call.
  ConstTensor TakeOutput(const Tensor& output);
  // The loss of outputs that stay on the device, and its metrics but for areas
  // under a curve; the host's `target` crosses. `gradient`, of the device, is
  // as the outputs: if it has data it is overwritten with the derivative of the
  // loss times `scale`; what is called next comes after it. Waits; nothing
  // counts if `device->status()` is not OK then.
  Metrics ComputeLoss(const Loss& loss, const Tensor& output,
                      const Loss::Target& target, double scale,
                      const Tensor& gradient);
  // The same of all tasks of a network. A loss over a batch compares all of the
  // outputs' examples with each other, and `scale` is then not 0: there an
  // example of weight 0 is left out.
  Metrics ComputeLoss(const NetworkPlan& plan, const Tensor& output,
                      absl::Span<const Loss::Target> targets, double scale,
                      const Tensor& gradient);

  // The gradient of `v`, computed by what was called until now, begins to
  // cross. All replicas of a group send the same ones in the same order.
  void SendGradient(size_t v, uint64_t values);
  // The same of one that is zero. REQUIRES: gradients_cross(); memory for so
  // many of them was reserved.
  void SendZeros(size_t v, uint64_t values);
  void ReserveZeros(uint64_t values);
  // What was sent waits for no others that it is summed with.
  void EndSending();
  // Waits for it, and overwrites `values` with it, if it is of use here.
  void TakeGradient(size_t v, absl::Span<float> values);
  bool gradients_cross() const { return link_ != nullptr; }
  // This replica can't go on, and the others shall not wait for it.
  void AbortSums();

  // Waits for all that was called and copied.
  void Finish() { device_.Finish(); }

  // What crosses beside variables: inputs, offsets and labels of so many bytes,
  // so many outputs, 0 if they stay, and rows of them.
  struct Crossings {
    std::vector<uint64_t> input_bytes = {};
    uint64_t offset_bytes = 0;
    uint64_t label_bytes = 0;
    uint64_t outputs = 0;
    uint64_t rows = 0;
    // Values of a target beside the labels.
    uint64_t soft = 0;
    // Outputs of the largest of several tasks; 0: there is one.
    uint64_t of_task = 0;
    // Examples that a loss compares with each other; 0: it compares none.
    uint64_t compared = 0;
  };
  // Of the device, beyond what it has already, for these, and weights and
  // gradients of variables of so many values. `dtype`: of what layers hand on.
  uint64_t MissingBytes(const Crossings& crossings,
                        absl::Span<const uint64_t> sizes, bool with_gradients,
                        DType dtype) const;
  // Grows `memory` of the device.
  std::byte* Reserve(uint64_t bytes, GrowingMemory* memory);

 private:
  struct Variable {
    GrowingMemory weights;
    GrowingMemory weights_twin;
    uint64_t known = 0;  // Values of the twin that the device has too.
    GrowingMemory gradient;
    GrowingMemory gradient_twin;
    float* wanted_at = nullptr;  // Where the gradient goes; null: to the twin.
    DeviceLink::Mark up = 0;
    DeviceLink::Mark down = 0;
    // Among replicas: of a sum that it is the last one of; and of the sum that
    // it is in.
    DeviceLink::Mark sum = 0;
    DeviceLink::Mark summed = 0;
  };
  // Something that crosses whole, once in a pass.
  struct Crossing {
    GrowingMemory on_device;
    GrowingMemory twin;
    DeviceLink::Mark mark = 0;
  };

  std::byte* ReserveHost(uint64_t bytes, GrowingMemory* memory);
  void Download(size_t v, uint64_t values);
  // Has what is in closed buckets summed, and cross then.
  void SumBuckets();
  // Copies `bytes` of `from` to the crossing's memory on the device.
  const void* Bring(const void* from, uint64_t bytes, Crossing* crossing);
  // The same, but what is computed from now on does not wait for it.
  const void* Upload(const void* from, uint64_t bytes, Crossing* crossing);
  // Has the device compute Device::Losses; the target and what is said of the
  // rows are the host's. Empty if the device's status is not OK.
  absl::Span<const double> TakeLosses(const RowLoss& loss, const Tensor& output,
                                      const ConstTensor& target,
                                      const Tensor& gradient);
  // ComputeLoss of a loss over a batch.
  Metrics ComputeInBatch(const Loss& loss, const Tensor& output,
                         const Loss::Target& target, double scale,
                         const Tensor& gradient);
  // The same numbers in `memory` of the device.
  Tensor Converted(const ConstTensor& from, DType to, GrowingMemory* memory);

  Device& device_;
  DeviceLink* const link_;
  std::vector<Variable> variables_;
  struct Input {
    Crossing now;
    Crossing ahead;      // Of a later pass.
    GrowingMemory half;  // What was converted.
  };
  std::vector<Input> inputs_;
  Crossing offsets_;
  Crossing labels_;
  Crossing factors_;
  Crossing losses_;                  // Back.
  std::vector<double> row_factors_;  // Of the loss at hand.
  Crossing output_;  // Back. Its memory on the device is the network's.
  GrowingMemory wide_output_;  // What was converted.
  GrowingMemory soft_gradient_;
  // Of one of several tasks.
  GrowingMemory task_output_;
  GrowingMemory task_gradient_;
  // Of a loss over a batch: of all pairs of examples, and of each item.
  GrowingMemory scores_;
  GrowingMemory scores_gradient_;
  std::vector<float> item_corrections_;
  Crossing corrections_;

  bool has_joined_ = false;
  Sharing sharing_ = Sharing::kAlone;
  bool holds_sums_ = false;
  GradientBuckets buckets_;
  GrowingMemory zeros_;  // Pinned.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_EXCHANGE_H_
