#ifndef PARAMD_WORKER_MODEL_LAYER_H_
#define PARAMD_WORKER_MODEL_LAYER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"
#include "worker/device/device.h"
#include "worker/hlo/hlo_graph.h"
#include "worker/model/trained_model.h"

namespace paramd {

// One step of a network, from tensors [examples, input dims...] to [examples,
// output dims...]. Has no weights and no memory of what passed: both are handed
// in, the memory as large as the layer says. Computes with a device alone, in
// float32 or float64; what layers hand on may be of two bytes, where variables,
// their gradients and statistics are float32. Immutable, hence thread-safe.
class Layer {
 public:
  // What all layers of one step share.
  struct Context {
    Device* device = nullptr;
    uint64_t examples = 0;
    // Of inputs, outputs, and gradients by them: see Device::activations.
    DType dtype = DType::kFloat32;
    // False: the model is used; nothing is dropped, running statistics count.
    bool training = false;
    // Some layer draws what it leaves out, in training.
    bool draws = false;
    // Where the batch stands: what is drawn for its example i is a function of
    // these and of the place of the example in the epoch's order.
    uint64_t seed = 0;
    uint64_t epoch = 0;
    uint64_t first = 0;
    // Of each example, where they do not follow each other from `first` on, in
    // memory of the device.
    absl::Span<const uint64_t> offsets = {};
    // Of each embedding, in order, where its integers lie in the input: after
    // so many for each example. Empty: all read the whole of it.
    absl::Span<const uint64_t> starts = {};
    // examples / the step's divisor: the batch's part in an update.
    double share = 1;
    const std::atomic<bool>* abandoned = nullptr;

    bool IsAbandoned() const {
      return abandoned != nullptr && abandoned->load(std::memory_order_relaxed);
    }
  };

  struct Pass {
    const Context* context = nullptr;
    absl::Span<const ConstTensor> weights = {};
    ConstTensor input = {};
    Tensor output = {};
    // KeptBytes, from Forward to Backward.
    std::byte* kept = nullptr;
    // ScratchBytes, as it was left by anybody.
    std::byte* scratch = nullptr;
  };

  // `input`, `output` and `kept` are those of Forward in training.
  struct BackwardPass : Pass {
    ConstTensor output_gradient = {};
    absl::Span<const Tensor> gradients = {};
    // Null data: nobody wants it.
    Tensor input_gradient = {};
  };

  // What all layers of one program share (worker/hlo); numbers as Context has
  // them.
  struct Emission {
    // What is drawn for a layer, of a key that follows from the step.
    struct Draw {
      std::string layer;
      HloValue key;  // u64, a scalar, a parameter.
    };

    HloGraph* graph = nullptr;
    bool training = false;
    HloValue share = {};    // A scalar; in training.
    HloValue offsets = {};  // u64, one per example; in training.
    // Those of all embeddings (s32), and where each one's begin.
    HloValue integers = {};
    absl::Span<const uint64_t> starts = {};
    std::vector<Draw> draws = {};
  };

  // The forward pass as a part of a program.
  struct ProgramPass {
    Emission* emission = nullptr;
    absl::Span<const HloValue> weights = {};
    // In training: what is subtracted from an untrained variable.
    absl::Span<HloValue> updates = {};
    // Before an embedding: zeros, for it reads the integers.
    HloValue input = {};
  };

  Layer(std::string name, Dims input, Dims output)
      : name_(std::move(name)),
        input_(std::move(input)),
        output_(std::move(output)) {}
  virtual ~Layer() = default;

  const std::string& name() const { return name_; }
  // Of one example.
  const Dims& input_dims() const { return input_; }
  const Dims& output_dims() const { return output_; }
  uint64_t input_size() const { return SizeOf(input_); }
  uint64_t output_size() const { return SizeOf(output_); }

  // In the order of the weights it wants.
  const std::vector<v1::Variable>& variables() const { return variables_; }

  // Its output is its input in other dimensions: it is never called.
  virtual bool is_view() const { return false; }
  // Backward reads what Forward wrote to the output. If not, it may be gone.
  virtual bool reads_output() const { return true; }
  // It is made of layers, all of whose activations it keeps.
  virtual bool keeps_layers() const { return false; }

  virtual uint64_t KeptBytes(uint64_t /*examples*/, DType) const { return 0; }
  virtual uint64_t ScratchBytes(uint64_t /*examples*/, DType) const {
    return 0;
  }

  // Both overwrite what they compute. Backward leaves output and what is kept,
  // and may be called again. REQUIRES: sizes fit, there is an example, and
  // nothing written overlaps anything read.
  virtual void Forward(const Pass& pass) const = 0;
  virtual void Backward(const BackwardPass& pass) const = 0;

  // The output.
  virtual HloValue Emit(const ProgramPass& pass) const = 0;

  // Of the forward pass, and of what of it Backward computes again, for one
  // example.
  virtual uint64_t flops() const { return output_size(); }
  // Appends this layer, and after it those that it holds.
  virtual void AddCost(int depth, std::vector<LayerCost>* costs) const;

 protected:
  // Variable `<name>/<part>`, drawn uniformly from [low, high); all `low` if
  // both are the same. Of a layer's own variables the first come first.
  v1::Variable& AddVariable(const std::string& part, const Dims& shape,
                            float low, float high);
  // As above, from ±sqrt(6 / (inputs + outputs)) (Glorot and Bengio, AISTATS
  // 2010, equation 16).
  void AddKernel(const std::string& part, const Dims& shape, uint64_t inputs,
                 uint64_t outputs);

  // [examples, output dims].
  Dims EmittedDims(const ProgramPass& pass) const;

  std::vector<v1::Variable> variables_;

 private:
  const std::string name_;
  const Dims input_;
  const Dims output_;
};

// Dimensions of `examples` of these.
Dims Batched(uint64_t examples, const Dims& dims);

// Memory that is handed out from its beginning, each piece at a multiple of 64
// bytes. From null it only counts.
class Arena {
 public:
  explicit Arena(std::byte* memory) : memory_(memory) {}

  Tensor Take(DType dtype, Dims dims);
  std::byte* TakeBytes(uint64_t bytes);
  uint64_t used() const { return used_; }

 private:
  std::byte* const memory_;
  uint64_t used_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_LAYER_H_
