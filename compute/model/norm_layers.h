#ifndef PARAMD_COMPUTE_MODEL_NORM_LAYERS_H_
#define PARAMD_COMPUTE_MODEL_NORM_LAYERS_H_

#include <string>
#include <utility>

#include "compute/model/layer.h"

namespace paramd {

// Normalises each value of the last dimension over the batch and all other
// dimensions (Ioffe and Szegedy, ICML 2015). Variables: <name>/scale, ones, and
// <name>/shift, zeros, and untrained <name>/mean and <name>/variance, which
// stand for the batch's when the model is used; the variance is the mean
// squared deviation.
//
// What Backward gives for an untrained variable is subtracted from it by the
// servers: -(1 - momentum) * (the batch's statistic - the value read) * share,
// where the share is the batch's part of the step's divisor. So in sync mode a
// running statistic moves towards the mean over the replicas, by examples; else
// by each push as it comes; and pushes merge by adding, each exactly once.
class BatchNormLayer : public Layer {
 public:
  BatchNormLayer(std::string name, const Dims& dims, double epsilon,
                 double momentum);

  bool reads_output() const override { return false; }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return 8 * output_size(); }

  double epsilon() const { return epsilon_; }
  double momentum() const { return momentum_; }

 private:
  struct Kept {
    Tensor mean;
    Tensor variance;
    uint64_t bytes = 0;
  };
  Kept Lay(DType dtype, std::byte* memory) const;
  Norm NormOf(const Pass& pass) const;

  const double epsilon_;
  const double momentum_;
};

// Normalises the last dimension of each place by itself (Ba et al., 2016).
// Variables: <name>/scale, ones, and <name>/shift, zeros.
class LayerNormLayer : public Layer {
 public:
  LayerNormLayer(std::string name, const Dims& dims, double epsilon);

  bool reads_output() const override { return false; }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override { return 8 * output_size(); }

  double epsilon() const { return epsilon_; }

 private:
  struct Kept {
    Tensor mean;
    Tensor variance;
    uint64_t bytes = 0;
  };
  Kept Lay(uint64_t examples, DType dtype, std::byte* memory) const;
  Norm NormOf(const Pass& pass) const;

  const double epsilon_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_NORM_LAYERS_H_
