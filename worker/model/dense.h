#ifndef PARAMD_WORKER_MODEL_DENSE_H_
#define PARAMD_WORKER_MODEL_DENSE_H_

#include <string>
#include <vector>

#include "worker/model/layer.h"

namespace paramd {

// y = x W + b. Variables: <name>/kernel [inputs, units], drawn uniformly from
// ±sqrt(6 / (inputs + units)) (Glorot and Bengio, AISTATS 2010, equation 16),
// and <name>/bias [units], zeros. Immutable, hence thread-safe.
class Dense : public Layer {
 public:
  Dense(const std::string& name, size_t inputs, size_t units);

  const std::vector<v1::Variable>& variables() const override {
    return variables_;
  }
  size_t output_width() const override { return units_; }
  void Forward(WeightSpans weights, ConstMatrix input,
               Matrix output) const override;
  void Backward(const BackwardPass& pass) const override;

 private:
  const size_t inputs_;
  const size_t units_;
  std::vector<v1::Variable> variables_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_DENSE_H_
