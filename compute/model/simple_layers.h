#ifndef PARAMD_COMPUTE_MODEL_SIMPLE_LAYERS_H_
#define PARAMD_COMPUTE_MODEL_SIMPLE_LAYERS_H_

#include <string>
#include <utility>

#include "compute/model/layer.h"

namespace paramd {

// The same values in other dimensions.
class Reshape : public Layer {
 public:
  using Layer::Layer;

  bool is_view() const override { return true; }
  void Forward(const Pass&) const override {}
  void Backward(const BackwardPass&) const override {}
};

// A function of each element.
class ElementwiseLayer : public Layer {
 public:
  ElementwiseLayer(std::string name, Dims dims, Elementwise function)
      : Layer(std::move(name), dims, dims), function_(function) {}

  Elementwise function() const { return function_; }

  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;

 private:
  const Elementwise function_;
};

// y = x W + b over the last dimension. Variables: <name>/kernel [inputs,
// units], <name>/bias [units], zeros.
class Dense : public Layer {
 public:
  // REQUIRES: the input has a dimension.
  Dense(std::string name, const Dims& input, uint64_t units);

  bool reads_output() const override { return false; }
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t DeferredBytes(uint64_t, DType, bool) const override { return 0; }
  void BackwardInput(const BackwardPass& pass) const override;
  void BackwardVariables(const BackwardPass& pass) const override;
  uint64_t flops() const override { return (2 * inputs_ + 1) * output_size(); }

 private:
  const uint64_t inputs_;
  const uint64_t units_;
};

// In training, an element is 0 with probability `rate`, else divided by 1 -
// rate (Srivastava et al., JMLR 2014).
class Dropout : public Layer {
 public:
  Dropout(std::string name, Dims dims, double rate)
      : Layer(std::move(name), dims, dims), rate_(rate) {}

  bool reads_output() const override { return false; }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override {
    return examples * output_size() * SizeOf(dtype);
  }
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;

  double rate() const { return rate_; }

 private:
  Tensor Factors(const Pass& pass) const;

  const double rate_;
};

// A row of <name>/table [rows, width] for each integer of the input, and zeros
// for one below 0.
class Embedding : public Layer {
 public:
  struct Table {
    uint64_t rows = 0;
    uint64_t width = 0;
    // So is its variable, and what the layer is handed in training are the rows
    // that the input means.
    bool sparse = false;
    // Also sparse: the input are keys, whatever the table's rows.
    bool keyed = false;
    v1::Variable::WhenFull when_full = v1::Variable::EVICT;
    uint32_t admit_after = 0;
    uint64_t expire_after = 0;
    uint64_t memory_rows = 0;
    v1::Variable::RowFormat row_format = v1::Variable::ROW_FORMAT_FP32;
    // How many embeddings there are before it: see Context::starts.
    size_t number = 0;
    bool padding = false;  // Integers may be below 0.
  };

  Embedding(std::string name, const Dims& input, const Table& table);

  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return 0; }

  // How many embeddings there are before it.
  size_t number() const { return number_; }
  bool has_padding() const { return padding_; }

 private:
  // Its integers.
  ConstTensor IndicesOf(const Pass& pass) const;

  const size_t number_;
  const bool padding_;
};

// Adds <name>/table [places, values] to each example [places, values].
class PositionalEmbedding : public Layer {
 public:
  PositionalEmbedding(std::string name, Dims dims);

  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t DeferredBytes(uint64_t, DType, bool) const override { return 0; }
  void BackwardInput(const BackwardPass& pass) const override;
  void BackwardVariables(const BackwardPass& pass) const override;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_SIMPLE_LAYERS_H_
