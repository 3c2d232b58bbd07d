#ifndef PARAMD_COMPUTE_MODEL_LAYER_H_
#define PARAMD_COMPUTE_MODEL_LAYER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "compute/device/device.h"
#include "compute/model/swap_file.h"
#include "compute/model/trained_model.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// A layer of a network: maps a tensor [examples, input dims...] to one of
// [examples, output dims...]. It owns neither weights nor activations: callers
// hand in both, and memory of the size that the layer asks for. It computes
// only through the device, in float32 or float64. Activations may be bf16 or
// fp16; variables, their gradients and statistics never are. Immutable, hence
// thread-safe.
class Layer {
 public:
  // What is the same for all layers of one pass.
  struct Context {
    Device* device = nullptr;
    uint64_t examples = 0;
    // The type of activations and their gradients: see Device::activations.
    DType dtype = DType::kFloat32;
    // False: inference. Nothing is dropped, and batch norm uses its running
    // statistics.
    bool training = false;
    // Some layer drops values in training.
    bool draws = false;
    // The random numbers of an example are a function of these three and of the
    // example's place in the epoch's order.
    uint64_t seed = 0;
    uint64_t epoch = 0;
    uint64_t first = 0;
    // The place of each example, in the device's memory; empty if they follow
    // one another from `first` on.
    absl::Span<const uint64_t> offsets = {};
    // What layers read of each feature, in the device's memory.
    absl::Span<const ConstTensor> inputs = {};
    // For each embedding, in order, how many integers of an example lie before
    // its own in its input. Empty: every embedding reads the whole input.
    absl::Span<const uint64_t> starts = {};
    // The batch's share of an update: examples / the step's divisor.
    double share = 1;
    const std::atomic<bool>* abandoned = nullptr;
    // Where layers that are swapped keep what they keep; null: none is.
    SwapFile* swap = nullptr;

    // Or failed, by status() of `swap`.
    bool IsAbandoned() const {
      return (abandoned != nullptr &&
              abandoned->load(std::memory_order_relaxed)) ||
             (swap != nullptr && !swap->status().ok());
    }
  };

  struct Pass {
    const Context* context = nullptr;
    absl::Span<const ConstTensor> weights = {};
    ConstTensor input = {};
    Tensor output = {};
    // KeptBytes, from Forward to Backward.
    std::byte* kept = nullptr;
    // ScratchBytes of it; what is in there is arbitrary.
    std::byte* scratch = nullptr;
  };

  // `input`, `output` and `kept` are those of the forward pass in training.
  struct BackwardPass : Pass {
    ConstTensor output_gradient = {};
    absl::Span<const Tensor> gradients = {};
    // Null data: it is not needed, as for the first layer.
    Tensor input_gradient = {};
    // In two halves: DeferredBytes, from the first to the second.
    std::byte* deferred = nullptr;
  };

  // Which part of a backward pass is computed: all of it at once, or one of the
  // two halves of one that is split, between which a pipeline does other work.
  enum class Part : uint8_t { kWhole, kInput, kVariables };

  Layer(std::string name, Dims input, Dims output)
      : name_(std::move(name)),
        input_(std::move(input)),
        output_(std::move(output)) {}
  virtual ~Layer() = default;

  const std::string& name() const { return name_; }
  // For one example.
  const Dims& input_dims() const { return input_; }
  const Dims& output_dims() const { return output_; }
  uint64_t input_size() const { return SizeOf(input_); }
  uint64_t output_size() const { return SizeOf(output_); }

  // In the order in which Forward gets their weights.
  const std::vector<v1::Variable>& variables() const { return variables_; }

  // The output is the input with other dimensions; such a layer is never
  // called.
  virtual bool is_view() const { return false; }
  // Backward reads the output of Forward. If false, its memory may have been
  // reused by then.
  virtual bool reads_output() const { return true; }
  // It contains layers and keeps all of their activations.
  virtual bool keeps_layers() const { return false; }

  virtual uint64_t KeptBytes(uint64_t /*examples*/, DType) const { return 0; }
  virtual uint64_t ScratchBytes(uint64_t /*examples*/, DType) const {
    return 0;
  }

  // Both overwrite what they compute. Backward changes neither the output nor
  // the kept memory, so it may be called again. REQUIRES: sizes fit, there is
  // an example, and nothing that is written overlaps anything that is read.
  virtual void Forward(const Pass& pass) const = 0;
  virtual void Backward(const BackwardPass& pass) const = 0;

  // Backward in two halves, with the same bits: first the gradient of the
  // input, which the layers before this one wait for, then those of the
  // variables, for which nobody does. Both get the same pass, and what it reads
  // (the output's gradient too) is there until the second has ended; scratch
  // memory is not. Only the first half writes the input's gradient, and only
  // the second those of the variables.
  //
  // A layer need not know how to split its work. Then the first half keeps the
  // gradients of the variables for the second; or the second does all of it, if
  // the input's is not wanted. `wanted`: it is.
  virtual uint64_t DeferredBytes(uint64_t examples, DType dtype,
                                 bool wanted) const;
  virtual void BackwardInput(const BackwardPass& pass) const;
  virtual void BackwardVariables(const BackwardPass& pass) const;
  // One of the three.
  void BackwardPart(Part part, const BackwardPass& pass) const;

  // Floating-point operations for one example: those of the forward pass, and
  // of the part of it that Backward computes again.
  virtual uint64_t flops() const { return output_size(); }
  // Appends the cost of this layer, then those of the layers inside of it.
  virtual void AddCost(int depth, std::vector<LayerCost>* costs) const;

  // How far from 0 the kernels, and the biases of kernels, of so many inputs
  // and outputs begin.
  struct Limits {
    double kernel = 0;
    double bias = 0;
  };

  // Initialises the kernels of this layer and their biases, but not those of
  // layers inside of it.
  void InitialiseKernels(
      absl::FunctionRef<Limits(uint64_t inputs, uint64_t outputs)> limits);

 protected:
  // Adds the variable `<name>/<part>`, initialised uniformly from [low, high),
  // or with `low` if both are equal.
  v1::Variable& AddVariable(const std::string& part, const Dims& shape,
                            float low, float high);
  // The same, initialised from ±sqrt(6 / (inputs + outputs)) (Glorot and
  // Bengio, AISTATS 2010, equation 16), or by InitialiseKernels.
  void AddKernel(const std::string& part, const Dims& shape, uint64_t inputs,
                 uint64_t outputs);
  // The bias of a kernel of so many inputs: zero, or by InitialiseKernels.
  void AddBias(const std::string& part, uint64_t outputs, uint64_t inputs);

  // The gradients of variables that are kept from the first half to the second.
  std::vector<Tensor> DeferredGradients(DType dtype, std::byte* deferred) const;

  std::vector<v1::Variable> variables_;

 private:
  // Or its bias.
  struct Kernel {
    size_t variable;
    uint64_t inputs, outputs;
    bool is_bias;
  };

  const std::string name_;
  const Dims input_;
  const Dims output_;
  std::vector<Kernel> kernels_;
};

// [examples, dims...]
Dims Batched(uint64_t examples, const Dims& dims);

// Bytes of a piece of memory after which the next one may begin.
inline uint64_t Aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Hands out memory from its beginning, each piece aligned to 64 bytes. Over
// null it only counts.
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

#endif  // PARAMD_COMPUTE_MODEL_LAYER_H_
