#ifndef PARAMD_COMPUTE_MODEL_METRICS_H_
#define PARAMD_COMPUTE_MODEL_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace paramd {

struct NamedValue {
  std::string name;
  double value = 0;
};

// What a loss says about the examples of a batch, and the metrics that a model
// names. All are sums, so those of batches and replicas are merged by adding.
struct Metrics {
  // What a model counts besides its loss.
  enum class Kind : uint8_t {
    kAccuracy,
    kTopK,
    // exp of the mean loss of a label.
    kPerplexity,
    kMeanSquaredError,
    // The area under the receiver operating characteristic, exact: the share of
    // pairs (a positive, a negative) in which the positive scores higher, ties
    // counted as half.
    kAuc,
    // The mean of the areas of each group's scores, by their number; a group
    // whose labels are all alike does not count.
    kGroupAuc,
    // Of each group's positives the share that is among its k highest scores;
    // the mean over the groups that have a positive.
    kGroupRecall,
    // The cross entropy of a label, over that of who knows no more than how
    // many are positive (He et al., 2014): below 1, the model knows more.
    kNormalisedEntropy,
    // The sum of the probabilities, over that of the labels: below 1, it
    // predicts too few. Of what is evaluated also by bucket.
    kCalibration,
  };
  // Of the examples whose probability is in one tenth of [0, 1], the last with
  // 1, each as often as its weight says.
  struct Bucket {
    double count = 0;
    double predicted = 0;  // The sum of the probabilities.
    double positives = 0;  // Of the labels.
  };
  static constexpr int kBuckets = 10;
  // One metric: `sum` over what it is a mean of, and how many there were, each
  // as often as its example's weight says; of kCalibration the sum of the
  // labels.
  struct Sum {
    Kind kind = Kind::kAccuracy;
    uint32_t k = 0;  // Of kTopK and kGroupRecall.
    double sum = 0;
    double count = 0;
    double positives = 0;  // Of kNormalisedEntropy, the sum of the labels.

    // "accuracy", "top_5", "perplexity", "mse", "auc", "group_auc",
    // "recall_at_5", "normalised_entropy", "calibration".
    std::string name() const;
    // Whether it is computed from all scores, and from those of each group.
    bool is_of_scores() const { return kind == Kind::kAuc || is_of_groups(); }
    bool is_of_groups() const {
      return kind == Kind::kGroupAuc || kind == Kind::kGroupRecall;
    }
    // Whether it is made of the outputs of what is evaluated, and a training
    // step has none of it.
    bool is_of_outputs() const {
      return is_of_scores() || kind == Kind::kNormalisedEntropy ||
             kind == Kind::kCalibration;
    }
  };
  // What an area or a recall is computed from.
  struct Score {
    float score = 0;
    bool positive = false;
  };

  double loss_sum = 0;  // Of the examples' losses.
  uint64_t examples = 0;
  // Labels whose output is the largest (of equal ones the first counts), out of
  // `labels`: one per example, or per position of a sequence; those that the
  // loss ignores count in neither. Each counts once, whatever its weight.
  uint64_t correct = 0;
  uint64_t labels = 0;
  // In the order in which the model names them.
  absl::InlinedVector<Sum, 4> sums = {};
  // Of metrics of scores; empty otherwise, and after a training step.
  std::vector<Score> scores = {};
  // Of those that are of groups, the group of each score.
  std::vector<int64_t> groups = {};
  // Of each score the weight of its example; empty: none has one.
  std::vector<float> score_weights = {};
  // Of kCalibration kBuckets, lowest first; empty otherwise, after a training
  // step, of no example, of a slice, and where what was added has none for some
  // examples.
  std::vector<Bucket> buckets = {};
  // Examples have weights, by which all means are weighted, but that of the
  // loss: its sum is, and it is over the number of examples.
  bool weighted = false;
  // Of a model with several outputs the same of each, whose loss is its own;
  // `loss_sum` and `examples` are then of all, and nothing else is counted
  // here.
  std::string output = {};
  std::vector<Metrics> outputs = {};
  // With model.slices the metrics of each slice, the examples that have one
  // value of a feature; ascending by feature, then by value, without slices
  // that have no example. A slice has no slices of its own.
  std::string feature = {};
  uint32_t value = 0;
  std::vector<Metrics> slices = {};

  // Leaves out the buckets, those of outputs too.
  void DropBuckets();

  // REQUIRES: both are of the same model, or one has no sums.
  Metrics& operator+=(const Metrics& other);

  double mean_loss() const;  // 0 if there are no examples.
  // Of labels without weights; 0 if there are none.
  double accuracy() const;

  // "loss", then the model's metrics by name, then "click/loss" and so on of an
  // output "click"; those of slices are not among them. An area without both
  // kinds of examples, or with a score that is NaN, is NaN; so is one, or a
  // recall, over groups of which none counts, a normalised entropy of labels
  // that are all alike, a calibration without positives, and any but the loss
  // where all weights are zero. A mean of nothing is 0, or of a slice NaN.
  std::vector<NamedValue> Values() const;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_METRICS_H_
