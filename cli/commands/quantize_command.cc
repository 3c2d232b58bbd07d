#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/quantization.h"
#include "checkpoint/verify.h"
#include "cli/commands/chosen_model.h"
#include "cli/commands/command.h"
#include "compute/model/network_plan.h"
#include "compute/model/quantization_aware.h"
#include "compute/quantized/quantize.h"
#include "input/open_pipeline.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/job_flags.h"

namespace paramd {
namespace {

// As they were typed.
struct WantedQuantization {
  JobFlags job;
  std::string checkpoint;
  std::string calibrate;
  std::string mode;
  std::string observer;
  std::string output;
  int batches = 100;
  int weight_bits = 0;  // 0: not said.
  int activation_bits = 8;
  bool per_tensor = false;
};

bool IsOfTheJob(const std::string& calibrate) {
  return calibrate == "train" || calibrate == "test";
}

bool IsOfIntegers(const std::string& mode) {
  return mode != "float16" && mode != "bfloat16";
}

// Of a network that training has prepared for it.
absl::Status CheckAsTrained(const WantedQuantization& wanted, int bits) {
  if (!wanted.mode.empty() && wanted.mode != "static") {
    return absl::InvalidArgumentError(
        absl::StrCat("--mode ", wanted.mode,
                     " is not for a model with quantization_aware, which was "
                     "trained for static ranges; leave it out"));
  }
  for (const auto& [flag, is_given] :
       {std::pair<const char*, bool>{"--calibrate", !wanted.calibrate.empty()},
        {"--observer", !wanted.observer.empty()},
        {"--activation_bits", wanted.activation_bits != 8},
        {"--per_tensor", wanted.per_tensor}}) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag,
                     " is not for a model with quantization_aware, whose "
                     "ranges training has learned; leave it out"));
  }
  if (wanted.weight_bits == 0 || wanted.weight_bits == bits) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--weight_bits is ", wanted.weight_bits,
                   ", and the model was trained for ", bits,
                   " (quantization_aware.weight_bits); leave it out"));
}

absl::StatusOr<QuantizeOptions> OptionsOf(const WantedQuantization& wanted,
                                          const v1::ModelConfig& model) {
  QuantizeOptions options;
  if (wanted.output.empty()) {
    return absl::InvalidArgumentError(
        "missing --output DIR, the directory to make");
  }
  if (wanted.activation_bits != 8 && wanted.activation_bits != 16) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--activation_bits is 8 or 16, not ", wanted.activation_bits));
  }
  if (model.has_quantization_aware()) {
    RETURN_IF_ERROR(CheckAsTrained(
        wanted, static_cast<int>(model.quantization_aware().weight_bits())));
    return options;
  }
  const bool calibrates = !wanted.calibrate.empty();
  options.mode =
      calibrates ? Quantization::Mode::kStatic : Quantization::Mode::kDynamic;
  if (!wanted.mode.empty()) {
    const auto mode = QuantizationModeOf(wanted.mode);
    if (!mode.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--mode is static, dynamic, float16 or bfloat16, not '",
                       wanted.mode, "'"));
    }
    options.mode = *mode;
  }
  const bool is_static = options.mode == Quantization::Mode::kStatic;
  if (is_static && !calibrates) {
    return absl::InvalidArgumentError(
        "--mode static needs --calibrate train|test|JOB, examples that the "
        "ranges are found with");
  }
  if (!is_static && (calibrates || !wanted.observer.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        calibrates ? "--calibrate" : "--observer", " is of --mode static; ",
        NameOf(options.mode), " has no ranges"));
  }
  if (!is_static && wanted.activation_bits != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("--activation_bits 16 is of --mode static; ",
                     NameOf(options.mode), " has no ranges of 16 bits"));
  }
  options.activation_bits = wanted.activation_bits;
  if (!wanted.observer.empty()) options.observer = wanted.observer;
  options.calibrated_on = wanted.calibrate;
  options.batches = static_cast<uint64_t>(wanted.batches);
  options.per_channel = !wanted.per_tensor;
  if (wanted.weight_bits > 0) {
    options.most_weight = MostOfBits(wanted.weight_bits);
  }
  return options;
}

// The job whose model the checkpoint has: a job to calibrate on is also that,
// unless another one is given.
absl::StatusOr<LoadedJob> LoadJob(const WantedQuantization& wanted) {
  JobFlags flags = wanted.job;
  if (flags.job_path.empty() && !wanted.calibrate.empty() &&
      !IsOfTheJob(wanted.calibrate)) {
    flags.job_path = wanted.calibrate;
  }
  return flags.Load();
}

// Null if the mode has no use for it. `training` is the job's.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenCalibration(
    const WantedQuantization& wanted, const LoadedJob& job,
    const Pipeline& training) {
  if (wanted.calibrate.empty()) return std::unique_ptr<Pipeline>();
  if (wanted.calibrate == "test") {
    return OpenTestData(job.config.input(), training);
  }
  if (wanted.calibrate == "train") return OpenTrainingData(job.config);
  JobFlags flags = wanted.job;
  flags.job_path = wanted.calibrate;
  ASSIGN_OR_RETURN(const LoadedJob other, flags.Load());
  return OpenTrainingData(other.config);
}

absl::Status CheckVariables(const std::string& checkpoint,
                            const v1::Manifest& manifest,
                            const std::vector<v1::Variable>& variables) {
  for (const v1::Variable& variable : variables) {
    if (!variable.keyed()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the variable '", variable.name(),
        "' has rows by key (capacity), which a quantised checkpoint can't "
        "hold"));
  }
  for (const v1::Variable& saved : manifest.variables()) {
    if (std::any_of(variables.begin(), variables.end(),
                    [&](const v1::Variable& variable) {
                      return variable.name() == saved.name();
                    })) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", checkpoint, "' has the variable '", saved.name(),
                     "', which the job's model does not have"));
  }
  return absl::OkStatus();
}

void PrintQuantized(const std::string& from, const std::string& to,
                    const Quantized& made, uint64_t bytes) {
  uint64_t float_bytes = 0;
  for (const QuantizedTensor& tensor : made.tensors) {
    uint64_t values = 1;
    for (const uint64_t dimension : tensor.shape) values *= dimension;
    float_bytes += values * sizeof(float);
  }
  const Quantization& quantization = made.quantization;
  std::string text =
      absl::StrCat(EscapeLine(to), ": ", NameOf(quantization.mode), " of ",
                   EscapeLine(from), "\n");
  for (const Quantization::Layer& layer : quantization.layers) {
    absl::StrAppendFormat(
        &text, "  %-16s int8 %s%s", EscapeLine(layer.name), layer.kind,
        layer.folded.empty()
            ? ""
            : absl::StrCat(" with ", EscapeLine(layer.folded)));
    if (layer.input.has_value() && quantization.activation_bits == 16) {
      absl::StrAppendFormat(&text, ", int16 input, scale %.6g",
                            layer.input->scale);
    } else if (layer.input.has_value()) {
      absl::StrAppendFormat(&text, ", input scale %.6g, zero point %d",
                            layer.input->scale, layer.input->zero_point);
    }
    text.push_back('\n');
  }
  for (const Quantization::Left& left : quantization.left) {
    absl::StrAppendFormat(&text, "  %-16s float: %s\n", EscapeLine(left.name),
                          EscapeLine(left.why));
  }
  if (quantization.mode == Quantization::Mode::kStatic &&
      quantization.examples == 0) {
    absl::StrAppend(&text, "  input scales: ", quantization.observer,
                    ", no calibration set was read\n");
  }
  absl::StrAppend(&text, "  range: ", RangeText(quantization), "\n");
  absl::StrAppendFormat(
      &text, "  %d bytes, of %d in float32: %.2f times smaller\n", bytes,
      float_bytes,
      static_cast<double>(float_bytes) / static_cast<double>(bytes));
  Print(text);
}

absl::Status QuantizeAsWanted(const WantedQuantization& wanted) {
  ASSIGN_OR_RETURN(const LoadedJob job, LoadJob(wanted));
  ASSIGN_OR_RETURN(QuantizeOptions options,
                   OptionsOf(wanted, job.config.model()));
  if (job.config.model().custom()) {
    return absl::InvalidArgumentError(
        "a program brings the job's model; layers of a job file are quantised");
  }
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(wanted.checkpoint));
  const std::string& from = paths.front();
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(from));
  if (IsQuantized(manifest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", from, "' is quantised already"));
  }
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job.config));
  ASSIGN_OR_RETURN(const auto plan,
                   PlanNetwork(job.config.model(), training->spec()));
  RETURN_IF_ERROR(CheckVariables(from, manifest, plan->variables));
  RETURN_IF_ERROR(CheckTrainedAs(job.config.model(), training->spec(),
                                 plan->variables, from, manifest));
  ASSIGN_OR_RETURN(const auto calibration,
                   OpenCalibration(wanted, job, *training));
  if (calibration != nullptr) {
    RETURN_IF_ERROR(CheckMeaning(*calibration, from, manifest.job().data(), {},
                                 "the calibration set"));
  }
  ASSIGN_OR_RETURN(const auto weights,
                   ReadWeights(from, plan->variables, job.config.seed(), {}));
  options.calibration = calibration.get();
  options.batch = std::max<uint64_t>(job.config.batch_per_replica(), 1);
  ASSIGN_OR_RETURN(const Quantized made,
                   Quantize(job.config.model(), training->spec(),
                            std::vector<absl::Span<const float>>(
                                weights.begin(), weights.end()),
                            options));
  ASSIGN_OR_RETURN(
      const uint64_t bytes,
      WriteQuantized(wanted.output, manifest, made.quantization, made.tensors));
  PrintQuantized(from, wanted.output, made, bytes);
  return absl::OkStatus();
}

}  // namespace

int QuantizeCommand(const Invocation& invocation) {
  WantedQuantization wanted;
  Flags flags(
      "quantize", "CHECKPOINT --job FILE --output DIR [flags]",
      "Makes a smaller checkpoint of one: dense layers, convolutions and "
      "attention with integers\nof 8 bits or fewer, or weights of 16. 'paramd "
      "predict' and 'evaluate' compute with it. The\nsets of --calibrate are "
      "the job's, or those of another job file.");
  flags.AddText("calibrate", "train|test|JOB",
                "static ranges: run the model on this set, to see what its "
                "layers get",
                &wanted.calibrate);
  flags.AddText("mode", "static|dynamic|float16|bfloat16",
                "static if there is a set to calibrate on, else dynamic: each "
                "example's own ranges, of dense layers and attention",
                &wanted.mode);
  flags.AddText("observer",
                "min_max|moving_average|percentile|histogram|entropy",
                "how a range is found in what was seen; min_max if not given",
                &wanted.observer);
  flags.AddCount("batches", "number of batches of the set, of the job's size",
                 {1, 1000000}, &wanted.batches);
  flags.AddCount("weight_bits",
                 "of weights; 7 are computed fast by processors without VNNI, "
                 "too; 0: 8, or what the model was trained for",
                 {2, 8}, &wanted.weight_bits);
  flags.AddCount("activation_bits",
                 "of what layers get, 8 or 16, with static ranges: 16 where "
                 "some of it is far larger than the rest; weights stay as "
                 "they are",
                 {8, 16}, &wanted.activation_bits);
  flags.AddSwitch("per_tensor",
                  "one scale for all weights of a layer, not one for each "
                  "output channel",
                  &wanted.per_tensor);
  flags.AddText("output", "DIR", "the directory to make", &wanted.output);
  flags.OnlyWith("batches", "--calibrate",
                 [&] { return !wanted.calibrate.empty(); });
  for (const char* const of_integers : {"weight_bits", "per_tensor"}) {
    flags.OnlyWith(of_integers, "--mode static or dynamic, which have integers",
                   [&] { return IsOfIntegers(wanted.mode); });
  }
  flags.AllowArguments(
      1, 1,
      "CHECKPOINT, the directory of a run, of which the newest "
      "is taken, or of a checkpoint");
  wanted.job.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  wanted.checkpoint = flags.arguments()[0];
  const absl::Status status = QuantizeAsWanted(wanted);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
