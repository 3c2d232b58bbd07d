#ifndef PARAMD_COMPUTE_QUANTIZED_INTEGER_ATTENTION_H_
#define PARAMD_COMPUTE_QUANTIZED_INTEGER_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compute/model/attention.h"
#include "compute/model/layer.h"

namespace paramd {

// Attention whose two projections are computed of integers; scores, shares and
// what these mix are float. It has no variables. Runs on an IntegerDevice, and
// can't be trained.
class IntegerAttention : public Attention {
 public:
  // Each an IntegerRun or a DynamicDense, of [places, values] of an example, of
  // which the first gives three times as many values.
  IntegerAttention(const Attention& attention,
                   std::unique_ptr<const Layer> projection,
                   std::unique_ptr<const Layer> output);

  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Backward(const BackwardPass& pass) const override;

 protected:
  void Project(const Pass& pass, size_t kernel, const ConstTensor& input,
               const Tensor& output) const override;

 private:
  const std::unique_ptr<const Layer> projection_;
  const std::unique_ptr<const Layer> output_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_INTEGER_ATTENTION_H_
