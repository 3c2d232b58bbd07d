#include "cli/commands/stage_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/verify.h"
#include "cli/commands/stage_figures.h"
#include "cli/commands/stage_fit.h"
#include "cli/stages/stages_page.h"
#include "config/setting.h"
#include "config/stages.h"
#include "input/label_file.h"
#include "process/exit_code.h"
#include "process/run_directory.h"

namespace paramd {
namespace {

// The setting is that of this value.
std::string FlagFor(absl::string_view name,
                    const google::protobuf::EnumDescriptor& type, int value) {
  return absl::StrCat("--", name, "=",
                      EnumName(*type.FindValueByNumber(value)));
}

// How a stage quantises what has not learned it, as flags.
void AddNumbers(const v1::StageQuantize& wanted,
                std::vector<std::string>* words) {
  if (wanted.mode() == v1::StageQuantize::MODE_FLOAT16 ||
      wanted.mode() == v1::StageQuantize::MODE_BFLOAT16) {
    return;
  }
  words->push_back(absl::StrCat("--weight_bits=", wanted.weight_bits()));
  if (wanted.per_tensor()) words->push_back("--per_tensor");
  if (wanted.mode() != v1::StageQuantize::MODE_STATIC) return;
  words->push_back(FlagFor("calibrate",
                           *v1::StageQuantize::CalibrationSet_descriptor(),
                           wanted.calibrate()));
  words->push_back(FlagFor("observer",
                           *v1::StageQuantize::Observer_descriptor(),
                           wanted.observer()));
  words->push_back(absl::StrCat("--batches=", wanted.batches()));
  words->push_back(
      absl::StrCat("--activation_bits=", wanted.activation_bits()));
}

int Said(const absl::Status& status) {
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

// What was made of the same run before a process could record it, or of another
// of its checkpoints: that may have a later name, and would be taken for the
// newest. INVALID_ARGUMENT, and nothing is removed, if one is of another run.
absl::Status RemoveMadeOf(const std::string& source,
                          const std::string& directory) {
  const auto left = CheckpointsAt(directory);
  if (absl::IsNotFound(left.status())) return absl::OkStatus();
  RETURN_IF_ERROR(left.status());
  ASSIGN_OR_RETURN(const v1::Manifest made_of, ReadManifest(source));
  for (const std::string& checkpoint : *left) {
    ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(checkpoint));
    if (manifest.run_id() == made_of.run_id()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint '", checkpoint, "' is of run ", manifest.run_id(),
        ", and what is quantised is of run ", made_of.run_id(),
        ": remove it, or give another checkpoint.directory"));
  }
  for (const std::string& checkpoint : *left) {
    RETURN_IF_ERROR(RemoveTree(checkpoint));
  }
  return absl::OkStatus();
}

std::string NameIn(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

absl::StatusOr<std::vector<LoadedJob>> StageRun::StagesOf(
    const JobFlags& flags) {
  if (!flags.stage.empty() || flags.job_path.empty()) {
    return std::vector<LoadedJob>();
  }
  ASSIGN_OR_RETURN(const JobSources sources, flags.Sources());
  return LoadStages(sources);
}

absl::StatusOr<std::string> StageRun::ChooseDirectory(const v1::JobConfig& job,
                                                      bool resume) {
  const std::string& run_dir = job.run_dir();
  if (run_dir.empty()) {
    return resume ? NewestRunDirectory("runs", job.name(), /*any=*/true)
                  : MakeRunDirectory("runs", job.name());
  }
  if (resume && !IsDirectory(run_dir)) {
    return absl::NotFoundError(absl::StrCat(
        "there is no run to go on with: there is no directory '", run_dir,
        "'; check run_dir, or begin one without --resume"));
  }
  RETURN_IF_ERROR(UseRunDirectory(run_dir, resume));
  return run_dir;
}

absl::StatusOr<StageRun> StageRun::Create(const JobFlags& flags,
                                          const std::string& run_dir) {
  JobFlags own = flags;
  own.settings.emplace_back("run_dir", PathFromRoot(run_dir));
  ASSIGN_OR_RETURN(std::vector<LoadedJob> stages, StagesOf(own));
  return StageRun(std::move(own), PathFromRoot(run_dir), std::move(stages));
}

StageRun::StageRun(JobFlags flags, std::string run_dir,
                   std::vector<LoadedJob> stages)
    : flags_(std::move(flags)),
      run_dir_(std::move(run_dir)),
      stages_(std::move(stages)) {}

std::string StageRun::Title(int number) const {
  return absl::StrCat("stage ", stages_[number].stage.name(), " (", number + 1,
                      " of ", stages_.size(), ")");
}

JobFlags StageRun::FlagsOf(int number) const {
  JobFlags flags = flags_;
  flags.stage = stages_[number].stage.name();
  return flags;
}

absl::Status StageRun::Begin() const {
  RETURN_IF_ERROR(Next().status());
  RETURN_IF_ERROR(CheckStagesFit(stages_));
  for (size_t i = 0; i < stages_.size(); ++i) {
    RETURN_IF_ERROR(CheckLabels(static_cast<int>(i)));
  }
  RETURN_IF_ERROR(UseRunDirectory(run_dir_, /*may_hold_a_run=*/true));
  return WriteStagesPage(run_dir_, stages_[0].config.name(), Records());
}

absl::StatusOr<NextStage> StageRun::Next() const {
  ASSIGN_OR_RETURN(const std::vector<FoundStage> found, FindStages(stages_));
  return FindNext(stages_, found);
}

int StageRun::Finish(int number, const Invocation& invocation) const {
  const StageKind kind = KindOf(stages_[number].stage);
  std::string target = stages_[number].config.checkpoint().directory();
  int exit_code = kExitFinished;
  if (kind == StageKind::kQuantize) exit_code = Quantize(number, invocation);
  if (kind == StageKind::kExport) {
    exit_code = Export(number, invocation, &target);
  }
  if (kind == StageKind::kLabel) {
    exit_code = Label(number, invocation, &target);
  }
  if (exit_code != kExitFinished) return exit_code;
  return Said(Record(number, target, invocation.models));
}

absl::StatusOr<std::string> StageRun::SourceOf(int number) const {
  for (const LoadedJob& stage : stages_) {
    if (stage.stage.name() != stages_[number].stage.from().stage()) continue;
    ASSIGN_OR_RETURN(const auto paths,
                     CheckpointsAt(stage.config.checkpoint().directory()));
    return paths.front();
  }
  return absl::NotFoundError("no stage to begin with");
}

int StageRun::Quantize(int number, const Invocation& invocation) const {
  const LoadedJob& stage = stages_[number];
  const auto source = SourceOf(number);
  if (!source.ok()) return Said(source.status());
  const std::string& directory = stage.config.checkpoint().directory();
  const std::string output = absl::StrCat(directory, "/", NameIn(*source));
  absl::Status made = MakeDirectories(directory);
  if (made.ok()) made = RemoveMadeOf(*source, directory);
  if (!made.ok()) return Said(made);
  const v1::StageQuantize& wanted = stage.stage.quantize();
  Invocation quantize = {invocation.program, FlagsOf(number).ToArguments(),
                         invocation.models};
  std::vector<std::string>& words = quantize.arguments;
  words.insert(words.begin(), *source);
  words.push_back(absl::StrCat("--output=", output));
  words.push_back(
      FlagFor("mode", *v1::StageQuantize::Mode_descriptor(), wanted.mode()));
  // What training has learned is not told.
  if (!stage.config.model().has_quantization_aware()) {
    AddNumbers(wanted, &words);
  }
  return QuantizeCommand(quantize);
}

int StageRun::Export(int number, const Invocation& invocation,
                     std::string* target) const {
  const LoadedJob& stage = stages_[number];
  const auto source = SourceOf(number);
  if (!source.ok()) return Said(source.status());
  const v1::StageExport& wanted = stage.stage.export_();
  const bool is_onnx = wanted.format() == v1::StageExport::FORMAT_ONNX;
  *target =
      absl::StrCat(stage.config.run_dir(), is_onnx ? "/model.onnx" : "/model");
  absl::Status made = MakeDirectories(stage.config.run_dir());
  if (made.ok()) made = RemoveTree(*target);
  if (!made.ok()) return Said(made);
  Invocation exporting = {invocation.program, {*source}, invocation.models};
  std::vector<std::string>& words = exporting.arguments;
  words.push_back(absl::StrCat("--to=", *target));
  words.push_back(FlagFor("format", *v1::StageExport::Format_descriptor(),
                          wanted.format()));
  if (is_onnx) {
    words.push_back(absl::StrCat("--opset=", wanted.opset()));
    for (std::string& argument : FlagsOf(number).ToArguments()) {
      words.push_back(std::move(argument));
    }
  }
  return CheckpointExportCommand(exporting);
}

int StageRun::Label(int number, const Invocation& invocation,
                    std::string* target) const {
  const LoadedJob& stage = stages_[number];
  const auto source = SourceOf(number);
  if (!source.ok()) return Said(source.status());
  *target = LabelsIn(stage.config.run_dir());
  const absl::Status made = MakeDirectories(stage.config.run_dir());
  if (!made.ok()) return Said(made);
  const v1::StageLabel& wanted = stage.stage.label();
  Invocation labelling = {invocation.program, FlagsOf(number).ToArguments(),
                          invocation.models};
  std::vector<std::string>& words = labelling.arguments;
  words.push_back(absl::StrCat("--checkpoint=", *source));
  words.push_back(absl::StrCat("--to=", *target));
  words.push_back(absl::StrFormat("--threshold=%.17g", wanted.threshold()));
  words.push_back(absl::StrCat("--per_class=", wanted.per_class()));
  words.push_back(absl::StrCat("--known=", wanted.known()));
  return LabelCommand(labelling);
}

absl::Status StageRun::CheckLabels(int number) const {
  const LoadedJob& stage = stages_[number];
  if (KindOf(stage.stage) != StageKind::kLabel) return absl::OkStatus();
  const std::string& directory = stage.config.run_dir();
  // It will be written.
  if (!ReadStageRecord(directory).ok()) return absl::OkStatus();
  const std::string hint = absl::StrCat(
      "; remove '", directory, "/stage.json', and they are written again");
  const auto labels = LabelFile::Open(LabelsIn(directory));
  if (!labels.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels.status().message(), hint));
  }
  ASSIGN_OR_RETURN(const std::string source, SourceOf(number));
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(source));
  if ((*labels)->header().model == ModelKey(manifest)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the labels '", (*labels)->path(),
                   "' are of another model than '", source, "'", hint));
}

absl::Status StageRun::Record(int number, const std::string& target,
                              const ModelFactory& models) const {
  const LoadedJob& stage = stages_[number];
  const StageKind kind = KindOf(stage.stage);
  StageRecord record;
  record.name = stage.stage.name();
  record.kind = std::string(StageKindName(kind));
  record.from = stage.stage.from().stage();
  record.settings = StageLines(stage);
  if (kind == StageKind::kExport || kind == StageKind::kLabel) {
    RETURN_IF_ERROR(MeasureFiles(target, &record));
  } else {
    RETURN_IF_ERROR(
        MeasureCheckpoint(FlagsOf(number), target, models, &record));
  }
  RETURN_IF_ERROR(WriteStageRecord(stage.config.run_dir(), record));
  return WriteStagesPage(run_dir_, stage.config.name(), Records());
}

std::vector<StageRecord> StageRun::Records() const {
  std::vector<StageRecord> records;
  for (const LoadedJob& stage : stages_) {
    auto record = ReadStageRecord(stage.config.run_dir());
    if (record.ok()) records.push_back(*std::move(record));
  }
  return records;
}

absl::Status CheckRunsByItself(const LoadedJob& job) {
  const std::string& name = job.stage.name();
  if (name.empty()) return absl::OkStatus();
  if (KindOf(job.stage) != StageKind::kTrain) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stage: '", name, "' ", StageKindName(KindOf(job.stage)),
                     " and trains nothing, so it is made when the whole job "
                     "runs: leave --stage out"));
  }
  if (!job.as_stage.run_dir().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "run_dir: is missing; with --stage give the directory of the whole run, "
      "in which the stage has a folder");
}

std::string StageRun::Describe() const {
  return absl::StrCat(StagesTable(Records()), "\nin ", ShortPath(run_dir_),
                      "/stages.json and stages.svg\n");
}

}  // namespace paramd
