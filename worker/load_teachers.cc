#include "worker/load_teachers.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/file.h"
#include "checkpoint/verify.h"
#include "compute/model/quantization_aware.h"
#include "config/recorded_model.h"
#include "input/label_file.h"
#include "input/open_pipeline.h"
#include "input/taught_labels.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {
namespace {

// What a job names that can't be used is the job's mistake.
absl::Status OfTeacher(const std::string& path, const absl::Status& status) {
  const std::string sentence =
      absl::StrCat("distill.teachers: '", path, "': ", status.message());
  return absl::IsUnavailable(status) ? absl::UnavailableError(sentence)
                                     : absl::InvalidArgumentError(sentence);
}

// Of a file of labels, which the message names.
absl::Status OfLabels(const absl::Status& status) {
  const std::string sentence =
      absl::StrCat("distill.teachers: ", status.message());
  return absl::IsUnavailable(status) ? absl::UnavailableError(sentence)
                                     : absl::InvalidArgumentError(sentence);
}

// Whether it is what paramd label has written, or is to be: runs and
// checkpoints are directories.
bool IsLabelFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  return std::filesystem::exists(path, error) ||
         absl::EndsWith(path, ".records");
}

// Without symbolic links, if it is a path of this machine.
std::string RealPath(const std::string& path) {
  const auto absolute = AbsolutePath(path);
  if (!absolute.ok()) return path;
  std::error_code error;
  const std::string real =
      std::filesystem::weakly_canonical(*absolute, error).string();
  return error || !absl::StartsWith(*absolute, "/") ? *absolute : real;
}

bool IsIn(absl::string_view path, absl::string_view directory) {
  return absl::ConsumePrefix(&path, directory) &&
         (path.empty() || path.front() == '/');
}

absl::Status CheckIsAnother(const v1::JobConfig& job, const std::string& path) {
  const std::string real = RealPath(path);
  const std::string& run = job.run_dir();
  const std::string& checkpoints = job.checkpoint().directory();
  const bool is_own =
      (!run.empty() && real == RealPath(run)) ||
      (!checkpoints.empty() && IsIn(real, RealPath(checkpoints)));
  if (!is_own) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "it is where this run writes, and a run can't be its own teacher; name "
      "another run, or give another run_dir");
}

struct Found {
  std::string path;  // Of the checkpoint.
  v1::Manifest manifest;
};

absl::StatusOr<Found> FindTeacher(const v1::JobConfig& job,
                                  const std::string& path) {
  RETURN_IF_ERROR(CheckIsAnother(job, path));
  ASSIGN_OR_RETURN(const auto checkpoints, CheckpointsAt(path));
  Found found;
  found.path = checkpoints.front();
  RETURN_IF_ERROR(CheckIsAnother(job, found.path));
  ASSIGN_OR_RETURN(found.manifest, ReadManifest(found.path));
  ASSIGN_OR_RETURN(const std::string named, AbsolutePath(path));
  // Each worker might find another one.
  if (named != found.path && !found.manifest.final()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the run has not finished: its newest checkpoint, '",
                     found.path, "', is of step ", found.manifest.global_step(),
                     "; wait for its end, or name a checkpoint"));
  }
  return found;
}

// Features that no layer of either reads, beside the label.
std::vector<std::string> OnlyMeasured(const v1::ModelConfig& model,
                                      const v1::ModelConfig& teacher) {
  std::vector<std::string> names = OnlySlicedBy(model, &teacher);
  names.push_back(model.group().empty() ? "group" : model.group());
  if (!model.example_weight().empty()) names.push_back(model.example_weight());
  return names;
}

// What a teacher may read: what it or a student is only measured by counts for
// nothing.
InputSpec ReadByTeachers(InputSpec input, const Task& student,
                         std::vector<std::string> measured) {
  measured.push_back(student.group.name);
  measured.push_back(student.weight.name);
  auto& features = input.features;
  features.erase(std::remove_if(features.begin(), features.end(),
                                [&](const FeatureSpec& feature) {
                                  return std::find(
                                             measured.begin(), measured.end(),
                                             feature.name) != measured.end();
                                }),
                 features.end());
  return input;
}

// Its model, as one whose predictions are of outputs divided by the
// temperature.
absl::StatusOr<std::unique_ptr<NetworkPlan>> PlanTeacher(
    const v1::JobConfig& job, const Found& found, const InputSpec& input,
    const NetworkPlan& student) {
  ASSIGN_OR_RETURN(v1::ModelConfig model,
                   RecordedModel(found.manifest.job().settings()));
  if (model.custom()) {
    return absl::InvalidArgumentError(
        "a program has brought its model, which no job can build");
  }
  if (!model.outputs().empty()) {
    return absl::InvalidArgumentError(
        "it has several outputs; a teacher has one");
  }
  if (model.loss() != v1::SOFTMAX_CROSS_ENTROPY) {
    return absl::InvalidArgumentError(
        "its loss is not softmax_cross_entropy, so its outputs are not "
        "probabilities of classes");
  }
  // It is compared with nothing.
  model.set_label(job.model().label());
  model.clear_metrics();
  model.clear_class_weights();
  model.clear_example_weight();
  std::vector<std::string> slices = OnlySlicedBy(job.model(), &model);
  for (std::string& slice : OnlySlicedBy(model)) {
    slices.push_back(std::move(slice));
  }
  model.clear_slices();
  ASSIGN_OR_RETURN(
      auto plan, PlanNetwork(model, ReadByTeachers(input, student.tasks.front(),
                                                   std::move(slices))));
  const Dims& its = plan->layers->output_dims();
  const Dims& ours = student.layers->output_dims();
  if (its != ours) {
    return absl::InvalidArgumentError(
        absl::StrCat("it gives ", absl::StrJoin(its, "x"),
                     " values for an example, and this model ",
                     absl::StrJoin(ours, "x"), ": both need the same classes"));
  }
  for (const v1::Variable& variable : plan->variables) {
    if (!variable.keyed()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "its variable '", variable.name(),
        "' has rows by key (capacity), which only a job of its own can look "
        "up"));
  }
  plan->temperature = job.distill().temperature();
  return plan;
}

absl::StatusOr<Teachers::Teacher> LoadTeacher(const v1::JobConfig& job,
                                              const std::string& path,
                                              const InputSpec& input,
                                              const NetworkPlan& student,
                                              const TeacherDevices& devices) {
  ASSIGN_OR_RETURN(const Found found, FindTeacher(job, path));
  ASSIGN_OR_RETURN(auto plan, PlanTeacher(job, found, input, student));
  if (HasTransforms(*plan) && devices.name != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("it was trained to be quantised (quantization_aware), "
                     "which the processor alone computes, and device is ",
                     devices.name, ": choose cpu"));
  }
  ASSIGN_OR_RETURN(auto weights,
                   ReadWeights(found.path, plan->variables, job.seed(), {}));
  Log(LogLevel::kInfo, "learning from a teacher",
      {{"checkpoint", found.path},
       {"run", found.manifest.run_id()},
       {"step", found.manifest.global_step()}});
  return Teachers::Teacher{
      .name = found.path,
      .model = std::make_unique<Network>(std::move(plan), devices.make,
                                         devices.name, devices.of_replicas),
      .weights = std::make_shared<const std::vector<std::vector<float>>>(
          std::move(weights))};
}

// One whose answers are in a file.
absl::StatusOr<Teachers::Teacher> TeacherOfLabels(const std::string& path,
                                                  const NetworkPlan& student) {
  ASSIGN_OR_RETURN(const LabelFileHeader header, ReadLabelHeader(path));
  const Dims& ours = student.layers->output_dims();
  if (ours != Dims{header.classes}) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' gives ", header.classes,
                     " values for an example, and this model ",
                     absl::StrJoin(ours, "x"), ": both need the same classes"));
  }
  Log(LogLevel::kInfo, "learning from a teacher's labels",
      {{"file", path}, {"model", header.model}, {"labels", header.records}});
  return Teachers::Teacher{.name = path};
}

// What tells the teacher from others, if numbers of the training data mean what
// they meant to it.
absl::StatusOr<std::string> CheckedTeacher(const v1::JobConfig& job,
                                           const std::string& path,
                                           const Pipeline& training) {
  ASSIGN_OR_RETURN(const Found found, FindTeacher(job, path));
  ASSIGN_OR_RETURN(const v1::ModelConfig model,
                   RecordedModel(found.manifest.job().settings()));
  RETURN_IF_ERROR(
      CheckMeaning(training, found.path, found.manifest.job().data(),
                   OnlyMeasured(job.model(), model), "the training data"));
  return absl::StrCat("step ", found.manifest.global_step(), " of run ",
                      found.manifest.run_id(), " (", ModelKey(found.manifest),
                      ")");
}

}  // namespace

absl::Status PrepareToLearn(const v1::JobConfig& job, Pipeline* training) {
  std::vector<std::unique_ptr<const TaughtLabels>> taught;
  std::vector<std::string> models;
  for (const std::string& path : job.distill().teachers()) {
    if (!IsLabelFile(path)) {
      auto model = CheckedTeacher(job, path, *training);
      if (!model.ok()) return OfTeacher(path, model.status());
      models.push_back(*std::move(model));
      continue;
    }
    auto labels = TaughtLabels::Open(
        path, *training, job.distill().temperature(), job.model().label());
    if (!labels.ok()) return OfLabels(labels.status());
    taught.push_back(*std::move(labels));
  }
  training->Teach(std::move(taught));
  training->TaughtBy(std::move(models));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Teachers>> LoadTeachers(
    const v1::JobConfig& job, const InputSpec& input,
    const NetworkPlan& student, const TeacherDevices& devices) {
  std::vector<Teachers::Teacher> teachers;
  for (const std::string& path : job.distill().teachers()) {
    if (IsLabelFile(path)) {
      auto teacher = TeacherOfLabels(path, student);
      if (!teacher.ok()) return OfLabels(teacher.status());
      teachers.push_back(*std::move(teacher));
      continue;
    }
    auto teacher = LoadTeacher(job, path, input, student, devices);
    if (!teacher.ok()) return OfTeacher(path, teacher.status());
    teachers.push_back(*std::move(teacher));
  }
  return std::make_unique<Teachers>(
      std::move(teachers), job.distill().temperature(), job.distill().alpha());
}

}  // namespace paramd
