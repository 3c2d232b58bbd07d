#ifndef PARAMD_COMPUTE_QUANTIZED_INTEGER_RUN_H_
#define PARAMD_COMPUTE_QUANTIZED_INTEGER_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compute/model/layer.h"
#include "compute/quantized/affine.h"
#include "compute/quantized/integer_product.h"

namespace paramd {

// Consecutive products of a quantised network, between which values stay
// integers, from float to float: stands for the layers that they were made of.
// An example whose input is not finite has outputs that are not a number, as in
// float32. It has no variables. Runs on an IntegerDevice, and can't be trained.
class IntegerRun : public Layer {
 public:
  // Of one example.
  struct Step {
    // A product, of so many rows, or images.
    IntegerProduct product;
    uint64_t rows = 1;
    // Instead of it, the largest of each window.
    absl::optional<Window> pool;
    uint64_t outputs = 0;  // Values.
  };

  // `bits` of the integers: 8, or 16, whose zero point is 0. REQUIRES: there is
  // a step, the last one is a product of a float result, and those before it
  // give integers that the next one takes.
  IntegerRun(std::string name, const Dims& input, const Dims& output, int bits,
             Affine input_affine, std::vector<Step> steps, uint64_t flops);

  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return flops_; }

 private:
  uint64_t BufferBytes(uint64_t examples) const;
  template <class T>
  void Run(const Pass& pass) const;

  const int bits_;
  const Affine affine_;
  const std::vector<Step> steps_;
  const uint64_t flops_;
};

// A dense layer whose input is made integers of by each row's own range: what
// it says of an example depends on no other. As above.
class DynamicDense : public Layer {
 public:
  // `product` is of sums; the scales of its weights, one or one of each output,
  // and a bias of each output.
  DynamicDense(std::string name, const Dims& input, const Dims& output,
               IntegerProduct product, std::vector<float> weight_scales,
               std::vector<float> bias, uint64_t flops);

  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return flops_; }

 private:
  uint64_t rows(uint64_t examples) const {
    return examples * input_size() / product_.inputs;
  }

  const IntegerProduct product_;
  const std::vector<float> weight_scales_;  // One of each output.
  const std::vector<float> bias_;
  const std::vector<int32_t> weight_sums_;
  const uint64_t flops_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_INTEGER_RUN_H_
