#ifndef PARAMD_COMPUTE_MODEL_TRANSFORMED_LAYER_H_
#define PARAMD_COMPUTE_MODEL_TRANSFORMED_LAYER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

#include "compute/model/layer.h"

namespace paramd {

// What a layer computes with in place of its kernel (its first variable) and
// its input, and what the gradients by them become: the one place for what
// changes numbers before a layer uses them (masks, rounding), or only looks at
// them (observers), whatever layer it is. By itself it changes nothing.
// Immutable, hence thread-safe, unless it says otherwise.
class LayerTransform {
 public:
  // A variable of the transform's own, which begins with zeros: a statistic
  // that is not trained.
  struct Variable {
    std::string part;  // Of its name, behind the layer's.
    Dims dims;
  };
  // What is the same for all calls of one pass.
  struct Use {
    const Layer::Context& context;
    absl::Span<const ConstTensor> own;  // The transform's variables.
    // Memory for a number of each output channel; what is in there is
    // arbitrary.
    absl::Span<float> channels;
  };

  virtual ~LayerTransform() = default;

  virtual std::vector<Variable> variables() const { return {}; }

  // What the layer gets: the tensor as it is, or in `memory`, of the same dims.
  // The same in both passes of a step.
  virtual ConstTensor Kernel(const Use&, const ConstTensor& kernel,
                             const Tensor& /*memory*/) const {
    return kernel;
  }
  virtual ConstTensor Input(const Use&, const ConstTensor& input,
                            const Tensor& /*memory*/) const {
    return input;
  }
  // The gradient by what the layer got becomes the one by what it was made of.
  virtual void KernelGradient(const Use&, const ConstTensor& /*kernel*/,
                              const Tensor& /*gradient*/) const {}
  virtual void InputGradient(const Use&, const ConstTensor& /*input*/,
                             const Tensor& /*gradient*/) const {}
  // In training: overwrites what is to be subtracted from each variable of its
  // own, as BatchNormLayer does for its running statistics.
  virtual void Update(const Use&, const ConstTensor& /*input*/,
                      absl::Span<const Tensor> /*updates*/) const {}
};

// A layer that is handed what a transform makes of its kernel and its input. It
// has the layer's name, and its variables: the layer's, then those of the
// transform. Both passes make it anew, in scratch memory.
class TransformedLayer : public Layer {
 public:
  // REQUIRES: the layer has a kernel.
  TransformedLayer(std::shared_ptr<const Layer> layer,
                   std::shared_ptr<const LayerTransform> transform);

  bool reads_output() const override { return layer_->reads_output(); }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override {
    return layer_->KeptBytes(examples, dtype);
  }
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return layer_->flops(); }

  const std::shared_ptr<const Layer>& layer() const { return layer_; }
  const LayerTransform& transform() const { return *transform_; }

 private:
  // Scratch memory: what the transform makes, then the layer's own.
  struct Laid {
    Tensor kernel;
    Tensor input;
    Tensor channels;
    std::byte* rest = nullptr;
    uint64_t bytes = 0;
  };
  // What both passes hand the layer.
  struct Handed {
    absl::InlinedVector<ConstTensor, 4> weights;
    ConstTensor input;
    std::byte* scratch = nullptr;
  };

  Laid Lay(uint64_t examples, DType dtype, std::byte* memory) const;
  LayerTransform::Use UseOf(const Pass& pass, const Laid& laid) const {
    return {*pass.context, pass.weights.subspan(layer_->variables().size()),
            laid.channels.values<float>()};
  }
  Laid LaidOf(const Pass& pass) const {
    return Lay(pass.context->examples, pass.context->dtype, pass.scratch);
  }
  Handed HandedOf(const Pass& pass, const Laid& laid) const;

  const std::shared_ptr<const Layer> layer_;
  const std::shared_ptr<const LayerTransform> transform_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_TRANSFORMED_LAYER_H_
