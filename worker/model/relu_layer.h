#ifndef PARAMD_WORKER_MODEL_RELU_LAYER_H_
#define PARAMD_WORKER_MODEL_RELU_LAYER_H_

#include <vector>

#include "worker/model/layer.h"

namespace paramd {

// y = max(x, 0), element by element; NaN stays NaN. Its derivative at 0 is
// taken to be 0. No variables. Immutable, hence thread-safe.
class ReluLayer : public Layer {
 public:
  explicit ReluLayer(size_t width) : width_(width) {}

  const std::vector<v1::Variable>& variables() const override {
    return variables_;
  }
  size_t output_width() const override { return width_; }
  void Forward(WeightSpans weights, ConstMatrix input,
               Matrix output) const override;
  void Backward(const BackwardPass& pass) const override;

 private:
  const size_t width_;
  const std::vector<v1::Variable> variables_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_RELU_LAYER_H_
