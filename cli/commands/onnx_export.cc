#include "cli/commands/onnx_export.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "nlohmann/json.hpp"

#include "base/escape.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/file.h"
#include "checkpoint/quantization.h"
#include "checkpoint/verify.h"
#include "cli/commands/chosen_model.h"
#include "compute/model/network_plan.h"
#include "compute/model/quantization_aware.h"
#include "compute/onnx/write_model.h"
#include "input/open_pipeline.h"
#include "process/terminal/dashboard.h"
#include "process/version.h"

namespace paramd {
namespace {

// A name as it was: a manifest has those that are not ASCII escaped.
std::string Unescaped(const std::string& kept) {
  std::string name;
  return absl::StrContains(kept, "\\x") && absl::CUnescape(kept, &name) ? name
                                                                        : kept;
}

// A JSON array, if the manifest has the names of all classes: it keeps the
// first hundred, and the first hundred bytes of each, beside a hash of them
// all.
absl::optional<std::string> ClassNames(const v1::DataMeaning& meaning) {
  for (const v1::DataMeaning::Fact& fact : meaning.facts()) {
    if (fact.values().empty() ||
        (fact.name() != "csv.class_names" &&
         fact.name() != "image_folders with the folders")) {
      continue;
    }
    auto names = nlohmann::json::array();
    uint64_t hash = 0;
    for (const std::string& kept : fact.values()) {
      const std::string name = Unescaped(kept);
      hash = StableHash(name, hash);
      names.push_back(name);
    }
    if (hash != fact.hash()) return absl::nullopt;
    return names.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  return absl::nullopt;
}

OnnxOptions OptionsOf(const v1::Manifest& manifest, int opset) {
  OnnxOptions options;
  options.opset = opset;
  options.name = manifest.job_name();
  options.version = ParamdVersion();
  options.step = manifest.global_step();
  options.metadata = {{"paramd.version", ParamdVersion()},
                      {"paramd.job", manifest.job_name()},
                      {"paramd.run", manifest.run_id()},
                      {"paramd.step", absl::StrCat(manifest.global_step())}};
  if (const auto classes = ClassNames(manifest.job().data().meaning())) {
    options.metadata.emplace_back("paramd.classes", *classes);
  }
  return options;
}

absl::StatusOr<OnnxIntegers> ReadOnnxIntegers(const std::string& directory) {
  OnnxIntegers integers;
  ASSIGN_OR_RETURN(integers.quantization, ReadQuantization(directory));
  ASSIGN_OR_RETURN(integers.tensors,
                   ReadIntegers(directory, integers.quantization));
  return integers;
}

std::string ShapeText(absl::string_view name, const Dims& dims) {
  std::string text = absl::StrCat(EscapeLine(name), " [batch");
  for (const uint64_t dimension : dims) absl::StrAppend(&text, ", ", dimension);
  return absl::StrCat(text, "]");
}

// "image [batch, 28, 28] to prediction [batch, 10]"
std::string Signature(const NetworkPlan& plan) {
  std::string text;
  for (const NetworkPlan::Input& input : plan.inputs) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    ShapeText(input.feature.name, input.feature.dims));
  }
  absl::StrAppend(&text, " to ");
  for (const Task& task : plan.tasks) {
    absl::StrAppend(&text, &task == &plan.tasks.front() ? "" : ", ",
                    ShapeText(task.name.empty() ? "prediction" : task.name,
                              task.prediction_dims()));
  }
  return text;
}

absl::Status WriteOnnxFile(const std::string& path, const std::string& bytes) {
  std::random_device random;
  const uint64_t nonce = uint64_t{random()} << 32 | random();
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(absl::StrCat(
                                        DirectoryOf(path), "/.",
                                        path.substr(path.rfind('/') + 1), ".",
                                        absl::Hex(nonce, absl::kZeroPad16))));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->FinishAs(path);
}

}  // namespace

absl::StatusOr<OnnxExport> ExportOnnx(const std::string& directory,
                                      const WantedOnnx& wanted) {
  ASSIGN_OR_RETURN(const LoadedJob job, wanted.job.Load());
  if (job.config.model().custom()) {
    return absl::InvalidArgumentError(
        "a program brings the job's model, and only layers of a job file can "
        "be written as ONNX: export the weights as safetensors");
  }
  ASSIGN_OR_RETURN(const std::string path, AbsolutePath(wanted.to));
  if (ReadableFile::Open(path).ok() || IsDirectory(path)) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", path, "' exists; an export is a new file"));
  }
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(directory));
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job.config));
  RETURN_IF_ERROR(CheckMeaning(*training, directory, manifest.job().data(), {},
                               "the training data"));
  ASSIGN_OR_RETURN(const auto plan,
                   PlanNetwork(job.config.model(), training->spec()));
  RETURN_IF_ERROR(CheckTrainedAs(job.config.model(), training->spec(),
                                 plan->variables, directory, manifest));
  absl::optional<OnnxIntegers> integers;
  if (IsQuantized(manifest)) {
    RemoveTransforms(plan.get());  // The integers are what they stand for.
    ASSIGN_OR_RETURN(integers, ReadOnnxIntegers(directory));
  }
  const OnnxIntegers* const used = integers ? &*integers : nullptr;
  RETURN_IF_ERROR(CheckFitsOnnx(*plan, used));
  ASSIGN_OR_RETURN(const auto weights, ReadWeights(directory, plan->variables,
                                                   job.config.seed(), {}));
  ASSIGN_OR_RETURN(const std::string bytes,
                   WriteOnnxModel(*plan,
                                  std::vector<absl::Span<const float>>(
                                      weights.begin(), weights.end()),
                                  used, OptionsOf(manifest, wanted.opset)));
  RETURN_IF_ERROR(WriteOnnxFile(path, bytes));
  OnnxExport written;
  written.path = path;
  written.line = absl::StrCat(EscapeLine(path), ": opset ", wanted.opset, ", ",
                              BytesText(bytes.size()), ", ", Signature(*plan));
  for (const auto& values : weights) {
    written.numbers += values.size();
    written.zeros +=
        static_cast<uint64_t>(std::count(values.begin(), values.end(), 0.0f));
  }
  return written;
}

}  // namespace paramd
