#ifndef PARAMD_COMPUTE_MODEL_ATTENTION_H_
#define PARAMD_COMPUTE_MODEL_ATTENTION_H_

#include <string>
#include <utility>

#include "compute/model/layer.h"

namespace paramd {

// Multi-head self-attention of a sequence [places, values] (Vaswani et al.,
// NeurIPS 2017, section 3.2). Queries, keys and values of all heads are one
// product; each head's share lies together inside of its third. Variables:
// <name>/projection/kernel [values, 3 values], its bias, <name>/output/kernel
// [values, values], its bias.
class Attention : public Layer {
 public:
  // `causal`: a place sees only itself and those before it. REQUIRES: heads
  // divide the values.
  Attention(std::string name, const Dims& dims, uint64_t heads, bool causal);

  bool reads_output() const override { return false; }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t DeferredBytes(uint64_t examples, DType dtype,
                         bool wanted) const override;
  void BackwardInput(const BackwardPass& pass) const override;
  void BackwardVariables(const BackwardPass& pass) const override;
  uint64_t flops() const override;

  uint64_t heads() const { return heads_; }
  bool is_causal() const { return causal_; }

  // The places of kernels among its variables; a kernel's bias is behind it.
  static constexpr size_t kProjectionKernel = 0;
  static constexpr size_t kOutputKernel = 2;

 protected:
  // Part of Forward: y = x W + b of each place, with one of the two kernels.
  virtual void Project(const Pass& pass, size_t kernel,
                       const ConstTensor& input, const Tensor& output) const;

 private:
  // The same tensors hold values, kept, and their gradients, in scratch.
  struct Tensors {
    Tensor projected;  // [examples, places, 3 values]
    Tensor shares;     // [examples, heads, places, places]
    Tensor mixed;      // [examples, places, values]
    uint64_t bytes = 0;
  };

  Tensors Lay(uint64_t examples, DType dtype, std::byte* memory) const;
  // The gradient of queries, keys and values.
  Tensor DeferredOf(const BackwardPass& pass) const;
  // From the output's gradient to that of queries, keys and values, which it
  // writes to `projected`, and on to the input's.
  void BackwardThrough(const BackwardPass& pass, const Tensor& projected) const;
  void BackwardVariablesFrom(const BackwardPass& pass,
                             const Tensor& projected) const;
  // Queries, keys or values (0, 1, 2) of all heads, as an operand begins there.
  ConstTensor Third(const Tensor& projected, uint64_t third) const;
  Tensor WritableThird(const Tensor& projected, uint64_t third) const;
  Product PerHead(uint64_t examples, uint64_t m, uint64_t n, uint64_t k) const;
  Product::Strides OfThird() const;
  Product::Strides OfShares() const;
  Product::Strides OfMixed() const;

  const uint64_t places_;
  const uint64_t values_;
  const uint64_t heads_;
  const uint64_t head_values_;
  const bool causal_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_ATTENTION_H_
