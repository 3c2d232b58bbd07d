#include "cli/commands/chosen_model.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

#include "base/status_macros.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/quantization.h"
#include "checkpoint/verify.h"
#include "cli/commands/operator_client.h"
#include "client/live_weights.h"
#include "compute/model/network_plan.h"
#include "compute/quantized/quantized_network.h"
#include "config/recorded_model.h"
#include "config/stages.h"
#include "config/task_address.h"
#include "input/open_pipeline.h"

namespace paramd {
namespace {

absl::Status CheckFlags(const ChosenModelFlags& flags) {
  if (flags.checkpoint.empty() && flags.live.empty()) {
    return absl::InvalidArgumentError(
        "--checkpoint PATH is missing, the directory of a run or a checkpoint, "
        "or --live ADDRESS, a process of a running cluster");
  }
  if (flags.live.empty()) return absl::OkStatus();
  if (!flags.checkpoint.empty()) {
    return absl::InvalidArgumentError(
        "--checkpoint and --live are both given; the weights are taken from "
        "one of them");
  }
  if (!flags.shard.empty()) {
    return absl::InvalidArgumentError(
        "--shard belongs to --checkpoint: a running job's weights differ "
        "each time they are read, so its parts would not be of one model");
  }
  const auto wrong = WrongAddress(flags.live, "ADDRESS");
  if (!wrong.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--live: ", *wrong));
}

// The features that only somebody who knows the answers has. What a model that
// a program brings reads, it alone knows.
std::vector<std::string> UnreadBy(ModelUse use, const v1::ModelConfig& model) {
  if (use == ModelUse::kEvaluate || model.custom()) return {};
  std::vector<std::string> unread;
  // An autoencoder's label is its input, and an item may be read and be right.
  const std::vector<std::string> read = FeaturesNamedBy(model);
  const auto add = [&](const std::string& name, absl::string_view by_default) {
    std::string one(name.empty() ? by_default : name);
    if (!one.empty() && !absl::c_linear_search(read, one) &&
        !absl::c_linear_search(unread, one)) {
      unread.push_back(std::move(one));
    }
  };
  const auto add_all = [&](const auto& measured) {
    add(measured.label(), "label");
    add(measured.group(), "group");
    add(measured.example_weight(), "");
  };
  if (model.outputs().empty()) {
    add_all(model);
    add(model.sampling_probability(), "");
  }
  for (const v1::ModelConfig::Output& output : model.outputs()) {
    add_all(output);
    add(model.example_weight(), "");
  }
  for (const std::string& slice : OnlySlicedBy(model)) add(slice, "");
  return unread;
}

// Whether it gives an evaluation other examples than training.
bool TellsApart(const v1::InputStage& stage) {
  return (stage.has_take() || stage.has_skip() || stage.has_filter()) &&
         (stage.on() == v1::InputStage::ON_TRAINING ||
          stage.on() == v1::InputStage::ON_EVALUATION);
}

bool HasOneThatTellsApart(const v1::InputSource& source) {
  return absl::c_any_of(source.stages(), TellsApart) ||
         absl::c_any_of(source.sample_from().sources(), HasOneThatTellsApart) ||
         absl::c_any_of(source.zip().sources(), HasOneThatTellsApart);
}

// Whether an evaluation reads the examples that training reads.
bool IsTrainedOn(const v1::InputConfig& input) {
  return input.has_train() && !input.has_test() &&
         absl::c_none_of(input.stages(), TellsApart) &&
         !HasOneThatTellsApart(input.train());
}

// Whether the checkpoint has the same names, each with the same shape.
bool HasJust(const v1::Manifest& manifest,
             absl::Span<const v1::Variable> variables) {
  std::map<std::string, const v1::Variable*> saved;
  for (const v1::Variable& one : manifest.variables()) saved[one.name()] = &one;
  return variables.size() == saved.size() &&
         absl::c_all_of(variables, [&](const v1::Variable& variable) {
           const auto found = saved.find(variable.name());
           return found != saved.end() &&
                  absl::c_equal(found->second->shape(), variable.shape());
         });
}

absl::Status ReadCheckpoint(const std::string& where, const v1::JobConfig& job,
                            absl::Span<const std::string> unread,
                            bool* is_quantized, ChosenModel* chosen) {
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(where));
  chosen->from = paths.front();
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(chosen->from));
  RETURN_IF_ERROR(
      CheckMeaning(*chosen->data, chosen->from, manifest.job().data(), unread));
  RETURN_IF_ERROR(CheckTrainedAs(job.model(), chosen->data->spec(),
                                 chosen->model->variables(), chosen->from,
                                 manifest));
  chosen->least_step = chosen->most_step = manifest.global_step();
  chosen->run_id = manifest.run_id();
  chosen->snapshot = manifest.snapshot();
  *is_quantized = IsQuantized(manifest);
  ASSIGN_OR_RETURN(chosen->weights,
                   ReadWeights(chosen->from, chosen->model->variables(),
                               job.seed(), chosen->keys));
  return absl::OkStatus();
}

absl::Status PullLive(const ChosenModelFlags& flags, ChosenModel* chosen) {
  LiveWeights::Options options;
  options.address = flags.live;
  options.timeout = absl::Milliseconds(flags.timeout_ms);
  ASSIGN_OR_RETURN(options.tls, OperatorTls(flags.tls_dir));
  auto pulled =
      LiveWeights(options).Pull(chosen->model->variables(), chosen->keys);
  if (!pulled.ok()) return pulled.status();
  chosen->from = flags.live;
  chosen->live = true;
  chosen->least_step = pulled->least_step;
  chosen->most_step = pulled->most_step;
  chosen->weights = std::move(pulled->values);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTrainedAs(const v1::ModelConfig& model,
                            const InputSpec& input,
                            absl::Span<const v1::Variable> variables,
                            const std::string& path,
                            const v1::Manifest& manifest) {
  if (!HasJust(manifest, variables)) return absl::OkStatus();
  auto recorded = RecordedModel(manifest.job().settings());
  if (!recorded.ok()) return absl::OkStatus();
  if (absl::c_none_of(input.features, [&](const FeatureSpec& feature) {
        return feature.name == recorded->input();
      })) {
    recorded->clear_input();  // These data call it otherwise.
  }
  const std::string difference = ModelDifference(model, *recorded);
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the job's model is not the one that checkpoint '", path,
      "' was trained for: ", difference,
      " (layers are counted without flatten, dropout and recompute); give the "
      "job that trained it"));
}

absl::StatusOr<TestPart> ParseShard(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  TestPart part;
  if (absl::SimpleAtoi(words.first, &part.index) &&
      absl::SimpleAtoi(words.second, &part.count) && part.index < part.count) {
    return part;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--shard is I/N, part I of N, the first of 4 is 0/4 and the last 3/4; "
      "not '",
      text, "'"));
}

std::string ChosenModel::StepText() const {
  if (least_step == most_step) return absl::StrCat("step ", least_step);
  return absl::StrCat("steps ", least_step, " to ", most_step);
}

void ChosenModelFlags::AddTo(Flags* flags) {
  flags->AddText("checkpoint", "PATH",
                 "take the weights from the directory of a run, of which the "
                 "newest checkpoint is taken, or of a checkpoint",
                 &checkpoint);
  flags->AddText("live", "ADDRESS",
                 "or from the servers of a running cluster, as they are now: "
                 "host:port of any of its processes",
                 &live);
  flags->AddText("shard", "I/N",
                 "only part I of the N parts of the test set, the first is 0",
                 &shard);
  flags->AddText("tls_dir", "DIR", kAskTlsDir, &tls_dir);
  flags->AddCount("timeout_ms", "how long to try to get weights from servers",
                  {1, 3600000}, &timeout_ms);
  flags->AddCount("threads",
                  "how many threads of this process compute; the numbers are "
                  "the same, whatever it is",
                  {1, 1024}, &threads);
  for (const char* const of_live : {"tls_dir", "timeout_ms"}) {
    flags->OnlyWith(of_live, "--live ADDRESS",
                    [this] { return !live.empty(); });
  }
  job.AddTo(flags);
}

absl::StatusOr<ChosenModel> OpenChosenModel(const ChosenModelFlags& flags,
                                            const ModelFactory& models,
                                            ModelUse use) {
  ASSIGN_OR_RETURN(LoadedJob job, flags.job.Load());
  if (use == ModelUse::kLabel) ForgetLabels(job.config.mutable_input());
  RETURN_IF_ERROR(CheckFlags(flags));
  ChosenModel chosen;
  if (!flags.shard.empty()) {
    ASSIGN_OR_RETURN(chosen.part, ParseShard(flags.shard));
  }
  chosen.threads = flags.threads;
  chosen.job_digest = job.digest;
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job.config));
  ASSIGN_OR_RETURN(chosen.model,
                   models(WithOneReplica(job.config), training->spec()));
  const std::vector<std::string> unread = UnreadBy(use, job.config.model());
  ASSIGN_OR_RETURN(chosen.data,
                   use == ModelUse::kLabel
                       ? OpenToLabel(job.config.input(), job.config.seed())
                       : OpenTestData(job.config.input(), *training, unread));
  RETURN_IF_ERROR(chosen.model->CheckTestData(chosen.data->spec()));
  chosen.is_trained_on = IsTrainedOn(job.config.input());
  ASSIGN_OR_RETURN(chosen.keys,
                   KeysReadBy(*chosen.data, *chosen.model, chosen.part));
  if (!flags.live.empty()) {
    RETURN_IF_ERROR(PullLive(flags, &chosen));
    return chosen;
  }
  bool is_quantized = false;
  RETURN_IF_ERROR(ReadCheckpoint(flags.checkpoint, job.config, unread,
                                 &is_quantized, &chosen));
  if (is_quantized) {
    ASSIGN_OR_RETURN(chosen.model,
                     OpenQuantized(job.config.model(), training->spec(),
                                   chosen.from, chosen.spans()));
  }
  return chosen;
}

}  // namespace paramd
