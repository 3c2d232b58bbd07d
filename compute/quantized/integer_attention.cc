#include "compute/quantized/integer_attention.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paramd {

IntegerAttention::IntegerAttention(const Attention& attention,
                                   std::unique_ptr<const Layer> projection,
                                   std::unique_ptr<const Layer> output)
    : Attention(attention.name(), attention.input_dims(), attention.heads(),
                attention.is_causal()),
      projection_(std::move(projection)),
      output_(std::move(output)) {
  variables_.clear();
}

// A forward pass of attention itself needs none.
uint64_t IntegerAttention::ScratchBytes(uint64_t examples, DType dtype) const {
  return std::max(projection_->ScratchBytes(examples, dtype),
                  output_->ScratchBytes(examples, dtype));
}

void IntegerAttention::Project(const Pass& pass, size_t kernel,
                               const ConstTensor& input,
                               const Tensor& output) const {
  const Layer& layer = kernel == kProjectionKernel ? *projection_ : *output_;
  layer.Forward({.context = pass.context,
                 .input = input,
                 .output = output,
                 .scratch = pass.scratch});
}

void IntegerAttention::Backward(const BackwardPass&) const {
  CHECK(false,
        "a quantised network is evaluated and predicts, and is not "
        "trained");
}

}  // namespace paramd
