#include "cli/commands/stage_fit.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "cli/commands/labels.h"
#include "compute/model/network_plan.h"
#include "config/name_pattern.h"
#include "config/nearest_name.h"
#include "config/stages.h"
#include "input/label_file.h"
#include "input/open_pipeline.h"
#include "input/taught_labels.h"

namespace paramd {
namespace {

struct StageModel {
  const LoadedJob* stage = nullptr;
  std::unique_ptr<NetworkPlan> plan;
};

using StageModels = std::map<std::string, StageModel>;  // By name.
// Of stages that label, by name: which examples, and how many.
using LabelsToCome = std::map<std::string, LabelFileHeader>;

absl::Status OfStage(const LoadedJob& stage, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("stage '", stage.stage.name(),
                                                  "': ", status.message()));
}

std::string ShapeOf(const v1::Variable& variable) {
  return variable.shape().empty() ? "one number"
                                  : absl::StrJoin(variable.shape(), "x");
}

absl::Status CheckVariable(const v1::Variable& variable,
                           const std::string& called,
                           const std::string& earlier, const NetworkPlan& its) {
  const auto found = std::find_if(
      its.variables.begin(), its.variables.end(),
      [&](const v1::Variable& other) { return other.name() == called; });
  if (found == its.variables.end()) {
    std::vector<std::string> names;
    for (const v1::Variable& other : its.variables) {
      names.push_back(other.name());
    }
    const std::string nearest = NearestName(called, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "from: '", earlier, "' has no variable '", called, "'",
        nearest.empty() ? "" : absl::StrCat(", the nearest is '", nearest, "'"),
        "; name those that it has in from.variables, or this one in "
        "from.allow_missing"));
  }
  if (std::equal(found->shape().begin(), found->shape().end(),
                 variable.shape().begin(), variable.shape().end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "from: '", earlier, "' has '", called, "' with the shape ",
      ShapeOf(*found), ", and '", variable.name(), "' has ", ShapeOf(variable),
      "; leave it out of from.variables, or name it in from.allow_missing"));
}

absl::Status CheckStart(const StageModel& model, const StageModels& models) {
  const v1::StageStart& from = model.stage->stage.from();
  const auto earlier = models.find(from.stage());
  // One that quantises keeps the variables of the one that trained.
  if (earlier == models.end()) return absl::OkStatus();
  for (const v1::Variable& variable : model.plan->variables) {
    // Where a capacity differs, the rows are taken.
    if (variable.keyed()) continue;
    const auto called = Renamed(from.variables(), from.from(), variable.name());
    if (!called.has_value()) continue;
    const absl::Status status =
        CheckVariable(variable, *called, from.stage(), *earlier->second.plan);
    if (!status.ok() && !MatchesAny(from.allow_missing(), variable.name())) {
      return status;
    }
  }
  return absl::OkStatus();
}

// Whether the labels that a stage will write say something of each example that
// another one, which learns from them, is trained on, as far as that is known.
absl::Status CheckTaught(const LoadedJob& labels, const LabelsToCome& to_come,
                         const LoadedJob& student, const Pipeline& training) {
  const std::string& name = labels.stage.name();
  const auto header = to_come.find(name);
  if (header != to_come.end()) {
    RETURN_IF_ERROR(CheckWillTeach(header->second, name, training));
  }
  const v1::StageLabel& choice = labels.stage.label();
  const auto read = LabelStagesOf(student.as_stage.input());
  const bool names_all = choice.threshold() == 0 && choice.per_class() == 0;
  if (names_all || std::find(read.begin(), read.end(), name) != read.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name,
      "' leaves examples out (label.threshold, label.per_class), of which it "
      "says nothing: give neither, or train on those that it names, by the "
      "stage relabel of the input"));
}

// `stages`: all.
absl::Status CheckTeachers(const StageModel& model, const StageModels& models,
                           absl::Span<const LoadedJob> stages,
                           const LabelsToCome& to_come,
                           const Pipeline& training) {
  for (const std::string& teacher :
       model.stage->as_stage.distill().teachers()) {
    const auto stage =
        std::find_if(stages.begin(), stages.end(), [&](const LoadedJob& other) {
          return teacher == StageReference(other.stage.name());
        });
    if (stage == stages.end()) continue;
    const std::string& name = stage->stage.name();
    const bool labels = KindOf(stage->stage) == StageKind::kLabel;
    const auto found = models.find(labels ? stage->stage.from().stage() : name);
    if (found != models.end()) {
      const Dims& its = found->second.plan->layers->output_dims();
      const Dims& ours = model.plan->layers->output_dims();
      if (its != ours) {
        return absl::InvalidArgumentError(absl::StrCat(
            "distill.teachers: '", name, "' gives ", absl::StrJoin(its, "x"),
            " values for an example, and this model ", absl::StrJoin(ours, "x"),
            ": both need the same classes"));
      }
    }
    if (!labels) continue;
    const absl::Status status =
        CheckTaught(*stage, to_come, *model.stage, training);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("distill.teachers: ", status.message()));
    }
  }
  return absl::OkStatus();
}

// `stages`: all.
absl::Status CheckLabels(const StageModel& model, const StageModels& models,
                         absl::Span<const LoadedJob> stages) {
  for (const std::string& name : LabelStagesOf(model.stage->as_stage.input())) {
    const auto labels = std::find_if(
        stages.begin(), stages.end(),
        [&](const LoadedJob& stage) { return stage.stage.name() == name; });
    if (labels == stages.end()) continue;
    const auto teacher = models.find(labels->stage.from().stage());
    if (teacher == models.end()) continue;
    const Dims& its = teacher->second.plan->layers->output_dims();
    const Dims& ours = model.plan->layers->output_dims();
    if (its.empty() || ours.empty() || its.back() <= ours.back()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the labels of '", name, "' are of ", its.back(),
        " classes, and this model gives ", absl::StrJoin(ours, "x"),
        " values: it needs one for each class"));
  }
  return absl::OkStatus();
}

// What a stage that labels will label, if there is something. The numbers of
// the model are not there yet.
absl::StatusOr<LabelFileHeader> ToLabel(const LoadedJob& stage) {
  RETURN_IF_ERROR(CheckGivesLabels(stage.config.model()));
  v1::InputConfig input = stage.config.input();
  ForgetLabels(&input);
  ASSIGN_OR_RETURN(const auto data, OpenToLabel(input, stage.config.seed()));
  const uint64_t known = stage.stage.label().known();
  if (known > data->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("known is ", known, ", and there are ", data->size(),
                     " examples; give at most so many"));
  }
  LabelFileHeader header;
  header.examples = data->examples().size();
  header.data =
      LabelledDataKey(data->source().DescribeToLabel(), data->examples());
  return header;
}

}  // namespace

absl::Status CheckStagesFit(absl::Span<const LoadedJob> stages) {
  StageModels models;
  LabelsToCome to_come;
  for (const LoadedJob& stage : stages) {
    if (KindOf(stage.stage) == StageKind::kLabel) {
      const auto labels = ToLabel(stage);
      if (!labels.ok()) return OfStage(stage, labels.status());
      to_come[stage.stage.name()] = *labels;
    }
    if (KindOf(stage.stage) != StageKind::kTrain) continue;
    v1::JobConfig job = stage.config;
    ForgetLabelsOfStages(stage.as_stage.input(), job.mutable_input());
    const auto data = OpenTrainingData(job);
    if (!data.ok()) return OfStage(stage, data.status());
    auto plan = PlanNetwork(job.model(), (*data)->spec());
    if (!plan.ok()) return OfStage(stage, plan.status());
    StageModel model{&stage, *std::move(plan)};
    RETURN_IF_ERROR(OfStage(stage, CheckStart(model, models)));
    RETURN_IF_ERROR(
        OfStage(stage, CheckTeachers(model, models, stages, to_come, **data)));
    RETURN_IF_ERROR(OfStage(stage, CheckLabels(model, models, stages)));
    models.emplace(stage.stage.name(), std::move(model));
  }
  return absl::OkStatus();
}

}  // namespace paramd
