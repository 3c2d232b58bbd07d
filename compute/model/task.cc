#include "compute/model/task.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "compute/model/layer_builder.h"
#include "proto/paramd/v1/setting.pb.h"

namespace paramd {
namespace {

absl::StatusOr<FeatureSpec> LabelOf(const v1::ModelConfig& config,
                                    const InputSpec& input) {
  const std::string name = config.label().empty() ? "label" : config.label();
  const FeatureSpec* feature = input.Find(name);
  if (feature != nullptr) return *feature;
  return absl::InvalidArgumentError(absl::StrCat("the loss reads the feature '",
                                                 name, "'; the input has ",
                                                 NamesOf(input)));
}

// The first metric that asks for a group; empty: none does.
std::string MetricByGroup(const v1::ModelConfig& config) {
  for (const int metric : config.metrics()) {
    if (metric == v1::ModelConfig::GROUP_AUC) return "group_auc";
    if (metric == v1::ModelConfig::RECALL_AT_K) return "recall_at_k";
  }
  return "";
}

// Without a name if no metric asks for it.
absl::StatusOr<FeatureSpec> GroupOf(const v1::ModelConfig& config,
                                    const InputSpec& input) {
  const std::string metric = MetricByGroup(config);
  if (metric.empty()) return FeatureSpec();
  const std::string name = config.group().empty() ? "group" : config.group();
  const FeatureSpec* feature = input.Find(name);
  if (feature == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the metric ", metric, " reads the feature '", name,
                     "'; the input has ", NamesOf(input),
                     ": csv.group makes one of a column"));
  }
  if (feature->dtype == DType::kInt64 && feature->size() == 1 &&
      !feature->ragged) {
    return *feature;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the metric ", metric, " needs one int64 for each example; '", name,
      "' is ", NameOf(feature->dtype), " of ", DimsText(feature->dims)));
}

// The feature that a setting names, of one number. Without a name if it names
// none. `hint`: how a file's column becomes one.
absl::StatusOr<FeatureSpec> NumberOf(absl::string_view setting,
                                     const std::string& name,
                                     absl::string_view hint,
                                     const InputSpec& input) {
  if (name.empty()) return FeatureSpec();
  const FeatureSpec* feature = input.Find(name);
  if (feature == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(setting, " is the feature '",
                                                   name, "'; the input has ",
                                                   NamesOf(input), ": ", hint));
  }
  if (feature->dtype == DType::kFloat32 && feature->size() == 1 &&
      !feature->ragged) {
    return *feature;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      setting, " needs one float32 for each example; '", name, "' is ",
      NameOf(feature->dtype), " of ", DimsText(feature->dims),
      feature->size() == 1 ? ": the stage \"cast\" makes a float32 of it"
                           : ""));
}

// Whether what comes out is two vectors, and the label the number of an item.
// `has`: both, in words.
absl::Status CheckPair(const Dims& output, absl::string_view has,
                       const FeatureSpec& label) {
  if (output.size() != 2 || output[0] != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the loss in_batch_softmax needs two vectors of one length for each "
        "example, 2x16 say, as \"parallel\" and \"reshape\" give them",
        has));
  }
  if (label.dtype == DType::kInt64 && label.size() == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the loss in_batch_softmax needs one int64 as the label, the number of "
      "the example's item",
      has,
      label.dtype == DType::kInt32 && label.size() == 1
          ? ": the stage \"cast\" makes an int64 of it"
          : ": csv.features with hash_keys make one of a column"));
}

// Whether the loss can take what comes out, for this label.
absl::Status CheckOutput(v1::Loss loss, const Dims& output,
                         const std::string& last, const FeatureSpec& label) {
  const std::string has =
      absl::StrCat("; the last layer '", last, "' gives ", DimsText(output),
                   " and the label '", label.name, "' is ", NameOf(label.dtype),
                   " of ", DimsText(label.dims));
  if (label.ragged) {
    return absl::InvalidArgumentError(
        absl::StrCat("the loss needs labels of one length; those of '",
                     label.name, "' have any"));
  }
  if (loss == v1::IN_BATCH_SOFTMAX) {
    return CheckPair(output, has, label);
  }
  if (loss != v1::SOFTMAX_CROSS_ENTROPY) {
    if (label.dtype == DType::kFloat32 &&
        SizeOf(label.dims) == SizeOf(output)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the loss ", LossName(loss),
        " needs a float32 label of one number for each output", has,
        label.dtype != DType::kFloat32 && SizeOf(label.dims) == SizeOf(output)
            ? ": the stage \"cast\" makes a float32 of it"
            : ""));
  }
  if (label.dtype != DType::kInt32 || output.empty() ||
      Dims(output.begin(), output.end() - 1) != label.dims) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the loss softmax_cross_entropy needs an int32 label, and for each of "
        "its numbers one output per class",
        has,
        label.dtype == DType::kFloat32
            ? ": say how many classes it has (csv.classes), or make an int32 "
              "of it by the stage \"cast\""
        : label.dtype == DType::kInt32 && label.dims.empty() &&
                output.size() > 1
            ? ": put \"flatten\" before it"
            : ""));
  }
  if (output.back() < label.classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last layer '", last, "' gives ", output.back(),
                     " values; the input has ", label.classes,
                     " classes and needs one each"));
  }
  return absl::OkStatus();
}

// Of those that need the outputs of two classes.
Metrics::Kind KindOfOutputs(int metric) {
  switch (metric) {
    case v1::ModelConfig::GROUP_AUC:
      return Metrics::Kind::kGroupAuc;
    case v1::ModelConfig::RECALL_AT_K:
      return Metrics::Kind::kGroupRecall;
    case v1::ModelConfig::NORMALISED_ENTROPY:
      return Metrics::Kind::kNormalisedEntropy;
    case v1::ModelConfig::CALIBRATION:
      return Metrics::Kind::kCalibration;
    default:
      return Metrics::Kind::kAuc;
  }
}

absl::StatusOr<Metrics::Sum> MetricOf(const v1::ModelConfig& config, int metric,
                                      uint64_t classes) {
  const v1::Loss loss = config.loss();
  const bool of_classes = loss == v1::SOFTMAX_CROSS_ENTROPY;
  // Something of each row is right, be it a class or an item.
  const bool of_one = of_classes || loss == v1::IN_BATCH_SOFTMAX;
  const bool binary = loss == v1::BINARY_CROSS_ENTROPY;
  const uint32_t k = config.top_k() == 0 ? 5 : config.top_k();
  std::string name;
  switch (metric) {
    case v1::ModelConfig::ACCURACY:
      if (of_one || binary) return Metrics::Sum{};
      name = "accuracy";
      break;
    case v1::ModelConfig::TOP_K:
      if (of_one) {
        return Metrics::Sum{.kind = Metrics::Kind::kTopK, .k = k};
      }
      name = "top_k";
      break;
    case v1::ModelConfig::PERPLEXITY:
      if (of_one) return Metrics::Sum{.kind = Metrics::Kind::kPerplexity};
      name = "perplexity";
      break;
    case v1::ModelConfig::MSE:
      if (loss == v1::MEAN_SQUARED_ERROR) {
        return Metrics::Sum{.kind = Metrics::Kind::kMeanSquaredError};
      }
      name = "mse";
      break;
    default: {
      Metrics::Sum sum = {.kind = KindOfOutputs(metric)};
      if (sum.kind == Metrics::Kind::kGroupRecall) sum.k = k;
      if (binary || (of_classes && classes == 2)) return sum;
      name = sum.name();
      break;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the metric ", name, " can't be had of the loss ",
                   LossName(loss), " over ", classes, " outputs"));
}

// Whether another label is ignored than the one that a job file which says
// nothing ignores, which is given to every model.
bool SaysWhatIsIgnored(const v1::ModelConfig& config) {
  const auto& setting = v1::ModelConfig::descriptor()
                            ->FindFieldByName("ignore_label")
                            ->options()
                            .GetExtension(v1::setting);
  return config.has_ignore_label() &&
         absl::StrCat(config.ignore_label()) != setting.default_json();
}

// Refuses what is said of classes, of a loss that has none.
absl::Status CheckHasClasses(const v1::ModelConfig& config) {
  if (config.loss() == v1::SOFTMAX_CROSS_ENTROPY ||
      (config.label_smoothing() == 0 && config.class_weights().empty() &&
       !SaysWhatIsIgnored(config))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("label_smoothing, class_weights and ignore_label are of "
                   "softmax_cross_entropy; the loss is ",
                   LossName(config.loss())));
}

absl::StatusOr<std::unique_ptr<Loss>> LossOf(const v1::ModelConfig& config,
                                             const Dims& output) {
  RETURN_IF_ERROR(CheckHasClasses(config));
  const uint64_t classes = output.empty() ? 1 : output.back();
  Loss::Options options;
  options.kind = config.loss();
  options.label_smoothing = config.label_smoothing();
  const bool of_classes = config.loss() == v1::SOFTMAX_CROSS_ENTROPY;
  if (of_classes && config.has_ignore_label()) {
    options.ignore_label = config.ignore_label();
  }
  options.class_weights.assign(config.class_weights().begin(),
                               config.class_weights().end());
  if (!options.class_weights.empty() &&
      options.class_weights.size() != classes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", options.class_weights.size(),
        " class_weights; the last layer gives ", classes, " classes"));
  }
  const bool of_batch = config.loss() == v1::IN_BATCH_SOFTMAX;
  if (of_batch && config.temperature() > 0) {
    options.temperature = config.temperature();
  }
  for (const int metric : config.metrics()) {
    ASSIGN_OR_RETURN(options.metrics.emplace_back(),
                     MetricOf(config, metric, classes));
  }
  if (config.metrics().empty() &&
      (of_classes || of_batch || config.loss() == v1::BINARY_CROSS_ENTROPY)) {
    options.metrics.emplace_back();
  }
  return std::make_unique<Loss>(std::move(options), output);
}

}  // namespace

std::string LossName(v1::Loss loss) {
  switch (loss) {
    case v1::SOFTMAX_CROSS_ENTROPY:
      return "softmax_cross_entropy";
    case v1::BINARY_CROSS_ENTROPY:
      return "binary_cross_entropy";
    case v1::MEAN_SQUARED_ERROR:
      return "mean_squared_error";
    case v1::KL_DIVERGENCE:
      return "kl_divergence";
    case v1::IN_BATCH_SOFTMAX:
      return "in_batch_softmax";
    default:
      return "";
  }
}

std::string NamesOf(const InputSpec& input) {
  return absl::StrJoin(input.features, ", ",
                       [](std::string* out, const FeatureSpec& feature) {
                         absl::StrAppend(out, "'", feature.name, "'");
                       });
}

absl::Status FindFeatures(const v1::ModelConfig& config, const InputSpec& input,
                          Task* task) {
  ASSIGN_OR_RETURN(task->label, LabelOf(config, input));
  ASSIGN_OR_RETURN(task->group, GroupOf(config, input));
  ASSIGN_OR_RETURN(task->weight,
                   NumberOf("example_weight", config.example_weight(),
                            "csv.weight makes one of a column", input));
  if (config.loss() != v1::IN_BATCH_SOFTMAX) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      task->probability,
      NumberOf("sampling_probability", config.sampling_probability(),
               "csv.features make one of a column", input));
  return absl::OkStatus();
}

absl::Status MakeLoss(const v1::ModelConfig& config, const Dims& output,
                      const std::string& last, Task* task) {
  RETURN_IF_ERROR(CheckOutput(config.loss(), output, last, task->label));
  ASSIGN_OR_RETURN(task->loss, LossOf(config, output));
  task->dims = output;
  return absl::OkStatus();
}

}  // namespace paramd
