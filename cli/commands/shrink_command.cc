#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/file.h"
#include "checkpoint/quantization.h"
#include "checkpoint/verify.h"
#include "checkpoint/write_weights.h"
#include "cli/commands/chosen_model.h"
#include "cli/commands/command.h"
#include "cli/commands/settings_json.h"
#include "compute/model/network_plan.h"
#include "compute/shrink/shrink.h"
#include "config/job_config.h"
#include "input/batch.h"
#include "input/open_pipeline.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/job_flags.h"

namespace paramd {
namespace {

constexpr char kJobFile[] = "job.json";

using Weights = std::vector<std::vector<float>>;

// As they were typed.
struct WantedShrink {
  JobFlags job;
  std::string checkpoint;
  std::string to;
};

// The checkpoint has what the job's model has, and it can be cut.
absl::Status CheckCheckpoint(const std::string& path,
                             const v1::Manifest& manifest,
                             const NetworkPlan& plan) {
  if (IsQuantized(manifest)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path,
        "' is quantised; shrink the checkpoint that it was made of, and "
        "quantise the result"));
  }
  for (const v1::Variable& variable : plan.variables) {
    if (!variable.keyed()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the variable '", variable.name(),
                     "' has rows by key (capacity), which can't be copied "
                     "into a smaller checkpoint"));
  }
  for (const v1::Variable& saved : manifest.variables()) {
    if (std::any_of(plan.variables.begin(), plan.variables.end(),
                    [&](const v1::Variable& variable) {
                      return variable.name() == saved.name();
                    })) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has the variable '", saved.name(),
                     "', which the job's model does not have"));
  }
  return absl::OkStatus();
}

// The job of the smaller model, which begins with the weights in `path` when
// it is trained on.
v1::JobConfig JobOf(const v1::JobConfig& job, const v1::ModelConfig& model,
                    const std::string& path) {
  using Pruning = v1::OptimizerConfig::Pruning;
  v1::JobConfig smaller = job;
  *smaller.mutable_model() = model;
  auto* const pruning = smaller.mutable_optimizer()->mutable_pruning();
  pruning->erase(std::remove_if(pruning->begin(), pruning->end(),
                                [](const Pruning& entry) {
                                  return entry.structure() == Pruning::CHANNELS;
                                }),
                 pruning->end());
  // Another run, which has all of these weights.
  smaller.set_run_dir("");
  smaller.mutable_checkpoint()->set_directory("");
  smaller.mutable_backup_and_restore()->set_directory("");
  smaller.mutable_summary()->set_directory("");
  v1::WarmStartConfig* const start = smaller.mutable_warm_start();
  start->set_path(path);
  start->set_variables("*");
  start->set_from("");
  start->set_allow_missing("");
  start->set_transpose("");
  return smaller;
}

v1::Manifest ManifestOf(const v1::Manifest& from, const v1::JobConfig& job,
                        const Shrunk& shrunk) {
  v1::Manifest manifest = from;
  manifest.mutable_variables()->Assign(shrunk.variables.begin(),
                                       shrunk.variables.end());
  const std::string text = JobWideText(job);
  manifest.set_job_digest(Digest(text));
  const std::vector<std::string> settings =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  manifest.mutable_job()->mutable_settings()->Assign(settings.begin(),
                                                     settings.end());
  return manifest;
}

absl::Status WriteJob(const v1::JobConfig& job, const std::string& directory) {
  ASSIGN_OR_RETURN(const auto file,
                   NewFile::Create(absl::StrCat(directory, "/", kJobFile)));
  RETURN_IF_ERROR(file->Append(JobJson(job)));
  return file->Finish();
}

uint64_t NumbersIn(const Weights& weights) {
  uint64_t numbers = 0;
  for (const auto& values : weights) numbers += values.size();
  return numbers;
}

void PrintShrunk(const std::string& from, const std::string& to,
                 const Shrunk& shrunk, uint64_t before, uint64_t bytes_before,
                 uint64_t bytes) {
  std::string text = absl::StrCat(EscapeLine(to), ": ", EscapeLine(from),
                                  " without its pruned channels\n");
  for (const Shrunk::Layer& layer : shrunk.layers) {
    absl::StrAppendFormat(&text, "  %-16s %d of %d outputs\n",
                          EscapeLine(layer.name), layer.after, layer.before);
  }
  const uint64_t after = NumbersIn(shrunk.weights);
  absl::StrAppendFormat(
      &text,
      "  %d parameters, of %d: %.2f times fewer\n"
      "  %d bytes of files, of %d, which may have an optimizer's slots\n"
      "  %s/%s: its job\n",
      after, before,
      static_cast<double>(before) /
          static_cast<double>(std::max<uint64_t>(after, 1)),
      bytes, bytes_before, EscapeLine(to), kJobFile);
  Print(text);
}

absl::Status ShrinkAsWanted(const WantedShrink& wanted) {
  if (wanted.to.empty()) {
    return absl::InvalidArgumentError(
        "missing --to FOLDER, the directory to make");
  }
  ASSIGN_OR_RETURN(const LoadedJob job, wanted.job.Load());
  if (job.config.model().custom()) {
    return absl::InvalidArgumentError(
        "a program brings the job's model; layers of a job file are cut");
  }
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(wanted.checkpoint));
  const std::string& from = paths.front();
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(from));
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job.config));
  ASSIGN_OR_RETURN(const auto plan,
                   PlanNetwork(job.config.model(), training->spec()));
  RETURN_IF_ERROR(CheckCheckpoint(from, manifest, *plan));
  RETURN_IF_ERROR(CheckTrainedAs(job.config.model(), training->spec(),
                                 plan->variables, from, manifest));
  ASSIGN_OR_RETURN(const Weights weights,
                   ReadWeights(from, plan->variables, job.config.seed(), {}));
  ASSIGN_OR_RETURN(const Shrunk shrunk,
                   Shrink(job.config.model(), training->spec(),
                          std::vector<absl::Span<const float>>(weights.begin(),
                                                               weights.end())));
  ASSIGN_OR_RETURN(const std::string to, AbsolutePath(wanted.to));
  const v1::JobConfig smaller = JobOf(job.config, shrunk.model, to);
  ASSIGN_OR_RETURN(
      const uint64_t bytes,
      WriteWeights(to, ManifestOf(manifest, smaller, shrunk), shrunk.weights,
                   [&](const std::string& directory) {
                     return WriteJob(smaller, directory);
                   }));
  PrintShrunk(from, wanted.to, shrunk, NumbersIn(weights),
              CheckpointBytes(manifest), bytes);
  return absl::OkStatus();
}

}  // namespace

int ShrinkCommand(const Invocation& invocation) {
  WantedShrink wanted;
  Flags flags("shrink", "CHECKPOINT --job FILE --to FOLDER [flags]",
              "Makes a checkpoint of a smaller model of one whose channels "
              "were pruned: without the\nunits and filters whose weights are "
              "all zero, and what reads them. FOLDER has it, and\njob.json, "
              "the job whose model it is of.");
  flags.AddText("to", "FOLDER", "the directory to make", &wanted.to);
  flags.AllowArguments(
      1, 1,
      "CHECKPOINT, the directory of a run, of which the newest "
      "is taken, or of a checkpoint");
  wanted.job.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  wanted.checkpoint = flags.arguments()[0];
  const absl::Status status = ShrinkAsWanted(wanted);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
