#ifndef PARAMD_COMPUTE_MODEL_PLACE_LAYERS_H_
#define PARAMD_COMPUTE_MODEL_PLACE_LAYERS_H_

#include <string>
#include <utility>

#include "compute/model/layer.h"

namespace paramd {

// Layers over places [places, values]: fields, or a list of what somebody
// chose.

// Places [begin, begin + count) of the first dimension. Of integers it is a
// view: the embedding after it knows which of them it reads.
class Select : public Layer {
 public:
  // REQUIRES: there is a dimension, and it has these places.
  Select(std::string name, const Dims& input, uint64_t begin, uint64_t count,
         bool of_integers);

  bool is_view() const override { return of_integers_; }
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return 0; }

  // The first place.
  uint64_t begin() const { return first_ / (input_size() / input_dims()[0]); }

 private:
  const uint64_t first_;  // Value of an example.
  const bool of_integers_;
};

// Places [places, values] to [values], without those whose values are all zero:
// see Device::PoolBag.
class BagPool : public Layer {
 public:
  // REQUIRES: two dims.
  BagPool(std::string name, const Dims& input, Bag kind)
      : Layer(std::move(name), input, {input[1]}), kind_(kind) {}

  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return 2 * input_size(); }

  Bag kind() const { return kind_; }

 private:
  const Bag kind_;
};

// The first place q, and the sum of the others, the keys k, each times its
// weight: [places, values] to [2, values]. The weight of a key is
//
//   w = sigmoid([q, k, q - k, q * k] W + b) v + c
//
// the local activation unit of DIN (Zhou et al., KDD 2018) with a difference
// beside its product. Weights are not normalised: their sum says how much of
// the list has to do with q. A key of zeros adds nothing, and gives no
// derivative by a variable or by q. Variables: <name>/hidden_kernel [4 values,
// units], <name>/hidden_bias [units], zeros, <name>/kernel [units, 1],
// <name>/bias [1], zero.
class AttentionPool : public Layer {
 public:
  // REQUIRES: two dims, the first above 1; units > 0.
  AttentionPool(std::string name, const Dims& input, uint64_t units);

  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override;

 private:
  // What Forward keeps; rows are keys of all examples.
  struct Kept {
    Tensor features;  // [rows, 4 values]
    Tensor hidden;    // [rows, units], before the sigmoid.
    Tensor active;    // [rows, units], after it.
    Tensor weights;   // [rows, 1]
  };

  Kept KeptOf(const Context& context, Arena* arena) const;
  void FillFeatures(const Pass& pass, const Kept& kept) const;
  // A product for each example, between rows of its weights, of its keys in the
  // input and of its sum in the output.
  Product PerExample(uint64_t m, uint64_t n, uint64_t k,
                     const Context& context) const;
  Product::Strides OfWeights() const { return {.outer = keys_}; }
  Product::Strides OfKeys() const;
  Product::Strides OfSum() const { return {.outer = 2 * width_}; }
  void InputBackward(const BackwardPass& pass, const Kept& kept,
                     const Tensor& by_hidden, Arena* scratch) const;

  const uint64_t keys_;
  const uint64_t width_;
  const uint64_t units_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_PLACE_LAYERS_H_
