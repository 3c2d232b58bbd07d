#ifndef PARAMD_COMPUTE_MODEL_LOSS_H_
#define PARAMD_COMPUTE_MODEL_LOSS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "compute/device/shapes.h"
#include "compute/model/metrics.h"
#include "proto/paramd/v1/model.pb.h"
#include "tensor/tensor.h"

namespace paramd {

// What is minimised, and what is counted. The loss of an example is the mean
// over its labels, of which it has one or, of a sequence, one per place; those
// that are ignored count in nothing, nor does an example that has no others. A
// device computes it row by row of outputs; what rows weigh, and what is made
// of what it says of them, is said here:
//
//   loss.FillFactors(target, scale, &factors);
//   device->Losses(loss.row_loss(), outputs, target, factors, ...);
//   const Metrics metrics = loss.Count(target, numbers);
//
// Immutable, hence thread-safe.
//
// Of outputs z and the label:
//   softmax cross entropy  w[l] * -sum_j q[j] log softmax(z)[j], where q is
//                          1 - smoothing at l, and smoothing / classes each
//   binary cross entropy   the mean over j of log(1 + exp(z)) - y z
//   mean squared error     the mean over j of (z - y)^2
//   KL divergence          sum_j y log(y / softmax(z)[j])
//   in-batch softmax       -log softmax(s[i])[i] of example i, where s are the
//                          scores of its batch (see in_batch.h): softmax cross
//                          entropy whose classes are the items of the batch,
//                          without other examples of the same item and without
//                          examples of weight 0
// all computed so that they overflow for no finite z, but where z - y does or
// its square as a float64; a z that is not finite makes the sum not finite.
class Loss {
 public:
  struct Options {
    v1::Loss kind = v1::LOSS_UNSPECIFIED;
    double label_smoothing = 0;
    std::vector<double> class_weights = {};  // Empty: 1 each.
    absl::optional<int32_t> ignore_label = {};
    double temperature = 1;  // Of scores of a batch; above 0.
    std::vector<Metrics::Sum> metrics = {};
  };

  // `outputs`: of one example, its last dimension the classes where there are
  // some. REQUIRES: the metrics are of this kind of loss.
  Loss(Options options, Dims outputs);

  // Of each example what its loss is multiplied by, 0 or more, and how often it
  // counts in means; the divisor of the loss is the number of examples all the
  // same. Empty: 1 each.
  using Weights = absl::Span<const float>;

  // What outputs of softmax cross entropy are compared with: labels and, beside
  // them, what another model says of the same examples. The loss is then
  //   (1 - alpha) * cross entropy + alpha * T^2 * sum_j p[j] log(p[j] / q[j])
  // with q = softmax(z / T), the second sum of each label without its weight.
  struct Target {
    ConstTensor labels;
    // Probabilities p, float32 like the outputs. No data: labels alone count,
    // and alpha is 0.
    ConstTensor soft = {};
    double temperature = 1;  // T.
    double alpha = 0;
    Weights weights = {};
    // Of each example's item, of a loss over a batch; empty: scores are not
    // corrected.
    absl::Span<const float> probabilities = {};
  };

  const Options& options() const { return options_; }
  // The last dimension of the outputs; 1 if they are a single value.
  uint64_t classes() const { return classes_; }

  // How example i of a batch is called.
  using ExampleName = absl::FunctionRef<std::string(uint64_t i)>;

  // DATA_LOSS, naming the example, if a label is out of range.
  // REQUIRES, of this and of what follows: the target, in host memory, has the
  // dims and the dtype that TargetIsIndex, IsOfBatch and the outputs ask for.
  absl::Status Check(const ConstTensor& target, ExampleName name) const;

  // Whether the target is the number of a class (int32), else it is numbers
  // (float32) like the outputs.
  bool TargetIsIndex() const {
    return options_.kind == v1::SOFTMAX_CROSS_ENTROPY;
  }

  // Whether the loss of an example depends on the others of its batch. The
  // target is then the number of each example's item (int64), and what a device
  // makes losses of are not the outputs but ScoreBatch's scores.
  bool IsOfBatch() const { return options_.kind == v1::IN_BATCH_SOFTMAX; }
  double temperature() const { return options_.temperature; }

  // Of the target's examples, those that have a label which is not ignored.
  uint64_t CountedExamples(const ConstTensor& target) const;
  // Whether this one has.
  bool Counts(const ConstTensor& target, uint64_t example) const;

  // What Device::Losses is to compute, of so many rows.
  const RowLoss& row_loss() const { return row_loss_; }
  uint64_t RowsOf(uint64_t examples) const {
    return examples * (outputs_ / columns_);
  }
  // Of each row, what makes its derivative a part of that of the sum of the
  // losses times `scale`. REQUIRES, of this and of Count: Check(target) is OK.
  void FillFactors(const ConstTensor& target, double scale,
                   std::vector<double>* factors, Weights weights = {}) const;
  // Of what the device said of the rows. Metrics of outputs are left out.
  Metrics Count(const ConstTensor& target, absl::Span<const double> numbers,
                Weights weights = {}) const;

  // The same of the part that is not the labels', of a target that has one:
  // REQUIRES: softmax cross entropy. AddSoft makes of the metrics of the labels
  // those of the whole loss; what is counted besides stays of the labels.
  RowLoss SoftRowLoss(const Target& target) const;
  void FillSoftFactors(const Target& target, double scale,
                       std::vector<double>* factors) const;
  void AddSoft(const Target& target, absl::Span<const double> numbers,
               Metrics* metrics) const;

  // Whether a metric is of outputs: an area under a curve, which is of each
  // example's score, a normalised entropy, a calibration.
  bool NeedsScores() const;
  // All at once, where the outputs are in host memory, float32 or float64. If
  // `gradient` has data it is overwritten with the derivative of the sum of the
  // losses times `scale`. `scored`: scores are kept, where a metric needs them;
  // with the `groups` of examples for an area over groups. REQUIRES:
  // Check(target) is OK; there is a group for each example, or no metric asks
  // for it; it is not IsOfBatch().
  Metrics Compute(const ConstTensor& outputs, const ConstTensor& target,
                  double scale, const Tensor& gradient, bool scored,
                  absl::Span<const int64_t> groups = {},
                  Weights weights = {}) const;

  // Of what Predict gives for an example.
  Dims prediction_dims(const Dims& outputs) const {
    return IsOfBatch() ? Dims{1} : outputs;
  }

  // Names of what is counted.
  std::vector<std::string> metrics() const;

  // What the outputs, divided by the temperature, stand for: probabilities
  // where the loss has classes or is binary, the product of its two vectors
  // where it is of a batch, else themselves.
  void Predict(const ConstTensor& outputs, const Tensor& prediction,
               double temperature = 1) const;

 private:
  // Calls f(row, label, weight, counted) for each that is not ignored; of its
  // example so many are. The weight is of its class.
  template <class Function>
  void ForEachLabel(const ConstTensor& target, Function f) const;
  // That of the example which the row is of.
  double WeightOf(uint64_t row, Weights weights) const {
    return weights.empty() ? 1 : double{weights[row / RowsOf(1)]};
  }
  void CountLabel(absl::Span<const double> row, double weight,
                  Metrics* metrics) const;
  template <class T>
  void KeepScores(const T* outputs, const ConstTensor& target,
                  absl::Span<const int64_t> groups, Weights weights,
                  Metrics* metrics) const;

  const Options options_;
  const uint64_t outputs_;  // Of one example.
  const uint64_t classes_;  // The last dimension.
  const RowLoss row_loss_;
  const uint64_t columns_;  // Of a row.
  const double terms_;      // Of an example's mean, where labels are numbers.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_LOSS_H_
