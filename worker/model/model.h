#ifndef PARAMD_WORKER_MODEL_MODEL_H_
#define PARAMD_WORKER_MODEL_MODEL_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/config.pb.h"
#include "worker/input/batch.h"
#include "worker/model/layer.h"
#include "worker/model/softmax_cross_entropy.h"

namespace paramd {

// A network and its loss. Owns no weights: they are handed in, one span per
// variable in the order of variables(), and may lie anywhere. Keeps the memory
// of a step's intermediate values for the next; it grows with the largest batch
// seen and a step that needs no more allocates nothing. The same weights and
// batch give the same bits.
//
// Not thread-safe: one Model per thread (they are cheap; weights may be
// shared).
//
//   ASSIGN_OR_RETURN(auto model, Model::Create(job.model(), dataset.spec()));
//   for (const v1::Variable& variable : model->variables()) ...
//   BatchResult result = model->ComputeGradient(weights, batch,
//                                               batch.size(), gradients);
class Model {
 public:
  // The most values that one variable may have.
  static constexpr uint64_t kMaxVariableSize = uint64_t{1} << 32;

  // INVALID_ARGUMENT, a sentence that names the layer, what it gets and what it
  // needs, if there is no layer or no loss, if a kind or the loss is not known,
  // if shapes do not fit, if the output has fewer values than there are
  // classes, or if a variable had more than kMaxVariableSize values.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      const v1::ModelConfig& config, const InputSpec& input);

  // All variables, from the first layer to the last: dense_1/kernel,
  // dense_1/bias, dense_2/kernel, ...
  const std::vector<v1::Variable>& variables() const { return variables_; }

  // Overwrites the gradients with the derivative, by each variable, of the sum
  // of the examples' losses divided by `divisor`: the batch's size, or in sync
  // mode the global batch. A batch without examples gives zeros. Returns the
  // result before the weights change; a loss that is not finite is the caller's
  // to refuse.
  // `ready` hears of each variable, the last layer's first, when its gradient is
  // computed; of none if the loss is not finite.
  // REQUIRES: spans have the sizes of the variables, the batch is one of the
  // input that the model was created for, divisor > 0.
  using Ready = absl::FunctionRef<void(size_t variable)>;
  BatchResult ComputeGradient(WeightSpans weights, const Batch& batch,
                              float divisor, GradientSpans gradients,
                              Ready ready = [](size_t) {});

  // While `*abandoned` is true, ComputeGradient ends behind the layer it is at;
  // its result and gradients are then of no use. It outlives the model's calls.
  void set_abandoned(const std::atomic<bool>* abandoned) {
    abandoned_ = abandoned;
  }

  // The result alone. REQUIRES: as above.
  BatchResult Evaluate(WeightSpans weights, const Batch& batch);

 private:
  // A layer, where its variables are in variables_, and its output's memory.
  struct Stage {
    std::unique_ptr<Layer> layer;
    size_t input_width = 0;
    size_t first_variable = 0;
    std::vector<float> output;
  };

  Model(std::vector<std::unique_ptr<Layer>> layers, uint64_t input_width);

  bool IsAbandoned() const {
    return abandoned_ != nullptr && abandoned_->load(std::memory_order_relaxed);
  }
  void Reserve(size_t rows);
  void CheckSizes(WeightSpans weights, const Batch& batch) const;
  Matrix Output(size_t stage, size_t rows);
  ConstMatrix Input(size_t stage, const Batch& batch);
  void Forward(WeightSpans weights, const Batch& batch);
  void Backward(WeightSpans weights, const Batch& batch,
                GradientSpans gradients, Ready ready);

  const uint64_t input_width_;
  std::vector<Stage> stages_;
  std::vector<v1::Variable> variables_;
  std::vector<size_t> variable_sizes_;
  size_t reserved_rows_ = 0;
  const std::atomic<bool>* abandoned_ = nullptr;
  // The gradient by a stage's output, and by its input; they change places.
  std::vector<float> gradient_;
  std::vector<float> next_gradient_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_MODEL_H_
