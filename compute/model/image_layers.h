#ifndef PARAMD_COMPUTE_MODEL_IMAGE_LAYERS_H_
#define PARAMD_COMPUTE_MODEL_IMAGE_LAYERS_H_

#include <string>
#include <utility>

#include "compute/model/layer.h"

namespace paramd {

// How a window slides: the same in both directions.
struct Sliding {
  uint64_t kernel = 1;
  uint64_t stride = 1;
  // Zeros around the input, so that there is one output for each stride of it;
  // of an odd number one more after. Else windows lie inside.
  bool same = false;

  // Places of the output along `size` places of the input. 0: the window is
  // larger than the input.
  uint64_t Outputs(uint64_t size) const;
};

// A convolution over images [height, width, channels]. Variables: <name>/kernel
// [kernel, kernel, channels of a group, filters], and <name>/bias [filters],
// zeros, if there is one.
class Conv2d : public Layer {
 public:
  struct Options {
    uint64_t filters = 0;
    uint64_t groups = 1;
    bool bias = true;
    Sliding sliding;
  };

  // REQUIRES: the window fits, groups divide channels and filters.
  Conv2d(std::string name, const Dims& image, const Options& options);

  bool reads_output() const override { return false; }
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t DeferredBytes(uint64_t, DType, bool) const override { return 0; }
  void BackwardInput(const BackwardPass& pass) const override;
  void BackwardVariables(const BackwardPass& pass) const override;
  uint64_t flops() const override;

  Convolution Shape(uint64_t examples) const;
  bool has_bias() const { return options_.bias; }

 private:
  const Options options_;
};

// The largest value, or the mean over what is inside of the image, of each
// window.
class Pool : public Layer {
 public:
  // REQUIRES: the window fits and has at most Pooling::kMaxWindow values.
  Pool(std::string name, const Dims& image, Pooling::Kind kind,
       const Sliding& sliding);

  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override {
    return output_size() * sliding_.kernel * sliding_.kernel;
  }

  Pooling Shape(uint64_t examples) const;

 private:
  Tensor Places(const Pass& pass) const;

  const Pooling::Kind kind_;
  const Sliding sliding_;
};

// The largest value, or the mean, of each channel: [..., channels] to
// [channels].
class GlobalPool : public Layer {
 public:
  GlobalPool(std::string name, const Dims& input, Pooling::Kind kind)
      : Layer(std::move(name), input, {input.back()}), kind_(kind) {}

  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return input_size(); }

  Pooling::Kind kind() const { return kind_; }

 private:
  const Pooling::Kind kind_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_IMAGE_LAYERS_H_
