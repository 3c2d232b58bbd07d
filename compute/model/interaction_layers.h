#ifndef PARAMD_COMPUTE_MODEL_INTERACTION_LAYERS_H_
#define PARAMD_COMPUTE_MODEL_INTERACTION_LAYERS_H_

#include <string>
#include <utility>

#include "compute/model/layer.h"

namespace paramd {

// Layers of recommenders, which multiply features with each other.

// out = a * b by element; `out` may be `a`.
inline void MultiplyElements(Device* device, const ConstTensor& a,
                             const ConstTensor& b, const Tensor& out) {
  device->ScaleRows(a, b, out);
}

// [fields, values] to the dot products of each two fields, as DLRM has them
// (Naumov et al., 2019): of field 1 with 0, of 2 with 0, of 2 with 1, and so
// on.
class DotInteraction : public Layer {
 public:
  // REQUIRES: two dims, the first above 1.
  DotInteraction(std::string name, const Dims& input);

  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override {
    return 2 * input_dims()[1] * output_size();
  }
};

// [..., channels] to the sum over all places, by channel.
class GlobalSumPool : public Layer {
 public:
  GlobalSumPool(std::string name, const Dims& input)
      : Layer(std::move(name), input, {input.back()}),
        places_(input_size() / input.back()) {}

  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return input_size(); }

 private:
  const uint64_t places_;
};

// The cross network of DCN-v2 (Wang et al., WWW 2021): x[i + 1] = x[0] * (x[i]
// W
// + b) + x[i], product by element, so many times. Variables, of each i:
// <name>/kernel_<i> [values, values], <name>/bias_<i> [values], zeros.
class Cross : public Layer {
 public:
  // REQUIRES: one dim, layers > 0.
  Cross(std::string name, const Dims& dims, uint64_t layers);

  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override {
    return layers_ * (2 * input_size() + 3) * input_size();
  }

  uint64_t layers() const { return layers_; }

 private:
  // Of layer i, its input, of i = 0 that of all, and what x[0] is multiplied
  // by.
  ConstTensor InputOf(uint64_t i, const Pass& pass) const;
  Tensor FactorOf(uint64_t i, const Pass& pass) const;
  Tensor Kept(uint64_t place, const Pass& pass) const;

  const uint64_t layers_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_INTERACTION_LAYERS_H_
