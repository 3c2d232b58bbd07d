#include "checkpoint/warm_start.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/trained_tensors.h"
#include "checkpoint/verify.h"
#include "config/name_pattern.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

constexpr char kOneFile[] = "model.safetensors";
// Mistakes that are said in full, and names of what is there.
constexpr size_t kMostMistakes = 20;
constexpr size_t kMostNames = 8;

using Shape = google::protobuf::RepeatedField<uint64_t>;

absl::Span<const uint64_t> SpanOf(const Shape& shape) {
  return {shape.data(), static_cast<size_t>(shape.size())};
}

// What `variable` is called there; nothing if it keeps its ordinary values.
absl::optional<std::string> SourceName(const v1::WarmStartConfig& config,
                                       const std::string& variable) {
  const auto texts = NamePattern(config.variables()).Match(variable);
  if (!texts.has_value()) return absl::nullopt;
  if (config.from().empty()) return variable;
  return NamePattern(config.from()).Fill(*texts);
}

std::string FirstOf(std::vector<std::string> names, size_t most,
                    absl::string_view separator) {
  const size_t all = names.size();
  if (all > most) names.resize(most);
  return absl::StrCat(
      absl::StrJoin(names, separator),
      all > most ? absl::StrCat(separator, "and ", all - most, " more") : "");
}

// Whether the variable keeps its ordinary values, as it may, because there is no
// such tensor, or one of another shape.
bool IsLeftOut(const v1::WarmStartConfig& config, const std::string& variable,
               absl::Span<const uint64_t> shape,
               const absl::StatusOr<TrainedTensors::Tensor>& tensor) {
  const bool fits = tensor.ok()
                        ? absl::MakeConstSpan(tensor->shape) == shape
                        : !absl::IsNotFound(tensor.status());
  return !fits && MatchesAny(config.allow_missing(), variable);
}

// What keeps a tensor from being a variable's values; empty: nothing.
std::string Mistake(const std::string& variable,
                    absl::Span<const uint64_t> shape, const std::string& name,
                    const TrainedTensors::Tensor& tensor) {
  if (absl::MakeConstSpan(tensor.shape) != shape) {
    return absl::StrCat("'", name, "' in '", tensor.file, "' has the shape ",
                        ShapeName(tensor.shape), "; variable '", variable,
                        "' has ", ShapeName(shape));
  }
  if (!IsTrainedDType(tensor.dtype)) {
    return absl::StrCat("'", name, "' in '", tensor.file, "' is ", tensor.dtype,
                        "; F32, F16 and BF16 are read");
  }
  return "";
}

std::string Missing(const std::string& variable,
                    absl::Span<const uint64_t> shape, const std::string& name) {
  return absl::StrCat("there is no '", name, "' for variable '", variable,
                      "' (", ShapeName(shape), ")");
}

// The newest checkpoint in a directory of them that verifies; empty: it holds
// none.
absl::StatusOr<std::string> NewestIn(const std::string& root) {
  ASSIGN_OR_RETURN(const auto names, ListCheckpointNames(root));
  absl::Status newest_fault;
  for (const CheckpointName& name : names) {
    const std::string path = absl::StrCat(root, "/", name.name);
    const absl::Status verified = VerifyCheckpoint(path).status();
    if (verified.ok()) return path;
    Log(LogLevel::kWarning, "a checkpoint to start from is passed over",
        {{"path", path}, {"why", verified.message()}});
    newest_fault.Update(verified);
  }
  if (!newest_fault.ok()) return newest_fault;
  return std::string();
}

absl::StatusOr<std::string> Resolve(const std::string& config_path) {
  ASSIGN_OR_RETURN(const std::string path, AbsolutePath(config_path));
  if (!IsDirectory(path)) return path;
  if (TrainedFileIn(path) == "manifest.json") {
    RETURN_IF_ERROR(VerifyCheckpoint(path).status());
    return path;
  }
  if (!TrainedFileIn(path).empty()) return path;
  ASSIGN_OR_RETURN(const auto names, ListDirectory(path));
  if (std::binary_search(names.begin(), names.end(), kOneFile)) {
    return absl::StrCat(path, "/", kOneFile);
  }
  for (const std::string& root : {path, absl::StrCat(path, "/checkpoints")}) {
    if (!IsDirectory(root)) continue;
    ASSIGN_OR_RETURN(const std::string newest, NewestIn(root));
    if (!newest.empty()) return newest;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("'", path, "' holds no checkpoint, no ", kOneFile,
                   " and no ", kOneFile, ".index.json"));
}

// What is not there, or not of the kind, is the setting's mistake.
absl::Status AsOfThePath(const absl::Status& status) {
  const bool is_mistake = absl::IsNotFound(status) ||
                          absl::IsPermissionDenied(status) ||
                          absl::IsFailedPrecondition(status);
  return absl::Status(
      is_mistake ? absl::StatusCode::kInvalidArgument : status.code(),
      absl::StrCat("warm_start.path: ", status.message()));
}

absl::Status CheckAll(const v1::WarmStartConfig& config,
                      absl::Span<const v1::Variable> all,
                      TrainedTensors* tensors) {
  std::vector<std::string> mistakes;
  size_t chosen = 0;
  size_t found = 0;
  for (const v1::Variable& variable : all) {
    const auto name = SourceName(config, variable.name());
    if (!name.has_value()) continue;
    ++chosen;
    const auto tensor = tensors->Find(*name);
    const auto shape = SpanOf(variable.shape());
    if (IsLeftOut(config, variable.name(), shape, tensor)) continue;
    std::string mistake;
    if (absl::IsNotFound(tensor.status())) {
      mistake = Missing(variable.name(), shape, *name);
    } else {
      RETURN_IF_ERROR(tensor.status());
      mistake = Mistake(variable.name(), shape, *name, *tensor);
    }
    ++found;
    if (!mistake.empty()) mistakes.push_back(std::move(mistake));
  }
  if (chosen == 0) {
    std::vector<std::string> names;
    for (const v1::Variable& variable : all) names.push_back(variable.name());
    mistakes.push_back(absl::StrCat(
        "variables \"", config.variables(),
        "\" is none of the job's: ", FirstOf(names, kMostNames, ", ")));
  } else if (found == 0) {
    mistakes.push_back(
        absl::StrCat("it has none of the ", chosen, " variables"));
  }
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("warm_start: '", config.path(),
                   "' does not fit: ", FirstOf(mistakes, kMostMistakes, "; "),
                   "; it has: ", FirstOf(tensors->names(), kMostNames, ", ")));
}

}  // namespace

absl::StatusOr<v1::WarmStartConfig> FindWarmStart(
    const v1::WarmStartConfig& config, absl::Span<const v1::Variable> all) {
  v1::WarmStartConfig found = config;
  const auto path = Resolve(config.path());
  if (!path.ok()) return AsOfThePath(path.status());
  found.set_path(*path);
  RETURN_IF_ERROR(CheckWarmStart(found, all));
  return found;
}

absl::Status CheckWarmStart(const v1::WarmStartConfig& config,
                            absl::Span<const v1::Variable> all) {
  const auto tensors = TrainedTensors::Open(config.path());
  if (!tensors.ok()) return AsOfThePath(tensors.status());
  return CheckAll(config, all, tensors->get());
}

absl::Status ReadWarmStart(const v1::ReadWarmStart& request,
                           v1::ReadWarmStartResult* result,
                           BufferChain* payload) {
  const v1::WarmStartConfig& config = request.warm_start();
  ASSIGN_OR_RETURN(const auto tensors, TrainedTensors::Open(config.path()));
  std::vector<TrainedTensors::Rows> wanted;
  for (const v1::ReadSlices::Want& want : request.slices()) {
    result->add_found(false);
    const auto name = SourceName(config, want.variable());
    if (!name.has_value()) continue;
    const auto tensor = tensors->Find(*name);
    const auto shape = SpanOf(want.shape());
    if (IsLeftOut(config, want.variable(), shape, tensor)) continue;
    if (absl::IsNotFound(tensor.status())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", config.path(), "': ", Missing(want.variable(), shape, *name)));
    }
    RETURN_IF_ERROR(tensor.status());
    const std::string mistake = Mistake(want.variable(), shape, *name, *tensor);
    if (!mistake.empty()) return absl::InvalidArgumentError(mistake);
    ASSIGN_OR_RETURN(const RowShape rows, ToRowShape(shape));
    if (want.row_begin() >= want.row_end() || want.row_end() > rows.rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rows [", want.row_begin(), ", ", want.row_end(), ") of '",
          want.variable(), "' do not exist; it has ", rows.rows));
    }
    result->set_found(result->found_size() - 1, true);
    wanted.push_back({*name, {want.row_begin(), want.row_end()}});
  }
  return tensors->Read(wanted, payload);
}

}  // namespace paramd
