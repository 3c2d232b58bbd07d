#ifndef PARAMD_COMPUTE_MODEL_GATED_SUMS_H_
#define PARAMD_COMPUTE_MODEL_GATED_SUMS_H_

#include <string>

#include "compute/model/layer.h"

namespace paramd {

// Of what experts say, for each gate the sum weighted by the softmax of its own
// row (Ma et al., KDD 2018): from one vector with [gates, experts] numbers of
// gates and, behind them, [experts, values] of experts, to [gates, values].
class GatedSums : public Layer {
 public:
  GatedSums(std::string name, uint64_t gates, uint64_t experts,
            uint64_t values);

  bool reads_output() const override { return false; }
  // Keeps the shares of experts.
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override;

  uint64_t experts() const { return experts_; }

 private:
  // Of all examples, one row for each gate.
  Tensor SharesAt(const Context& context, std::byte* memory) const;
  // Where experts are in each example's vector, and how.
  ConstTensor ExpertsOf(const ConstTensor& input) const;
  Product::Strides OfExperts() const;
  Product::Strides OfShares() const;
  Product::Strides OfSums() const;

  const uint64_t gates_;
  const uint64_t experts_;
  const uint64_t values_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_GATED_SUMS_H_
