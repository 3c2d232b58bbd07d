#include "checkpoint/warm_start.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/trained_keys.h"
#include "checkpoint/trained_tensors.h"
#include "checkpoint/verify.h"
#include "config/name_pattern.h"
#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Mistakes that are said in full, and names of what is there.
constexpr size_t kMostMistakes = 20;
constexpr size_t kMostNames = 8;
// Of a tensor that is transposed, read at once.
constexpr uint64_t kWindowBytes = uint64_t{4} << 20;

using Shape = google::protobuf::RepeatedField<uint64_t>;

absl::Span<const uint64_t> SpanOf(const Shape& shape) {
  return {shape.data(), static_cast<size_t>(shape.size())};
}

// A variable that takes its initial values from there.
struct Taker {
  const std::string& name;
  absl::Span<const uint64_t> shape;
  bool keyed;
};

Taker TakerOf(const v1::Variable& variable) {
  return {variable.name(), SpanOf(variable.shape()), variable.keyed()};
}

// What `variable` is called there; nothing if it keeps its ordinary values.
absl::optional<std::string> SourceName(const v1::WarmStartConfig& config,
                                       const std::string& variable) {
  return Renamed(config.variables(), config.from(), variable);
}

bool IsTransposed(const v1::WarmStartConfig& config,
                  const std::string& variable) {
  return MatchesAny(config.transpose(), variable);
}

// The shape that the variable has there.
std::vector<uint64_t> ShapeThere(const v1::WarmStartConfig& config,
                                 const std::string& variable,
                                 absl::Span<const uint64_t> shape) {
  std::vector<uint64_t> there(shape.begin(), shape.end());
  if (IsTransposed(config, variable)) std::reverse(there.begin(), there.end());
  return there;
}

std::string FirstOf(std::vector<std::string> names, size_t most,
                    absl::string_view separator) {
  const size_t all = names.size();
  if (all > most) names.resize(most);
  return absl::StrCat(
      absl::StrJoin(names, separator),
      all > most ? absl::StrCat(separator, "and ", all - most, " more") : "");
}

// Whether rows of the tensor may be rows of the variable.
bool HasItsShape(const v1::WarmStartConfig& config, const Taker& taker,
                 const TrainedTensors::Tensor& tensor) {
  if (tensor.keyed != taker.keyed) return false;
  if (!taker.keyed) {
    return tensor.shape == ShapeThere(config, taker.name, taker.shape);
  }
  return tensor.shape.size() == 2 && tensor.shape[1] == taker.shape[1];
}

// Whether the variable keeps its ordinary values, as it may, because there is
// no such tensor, or one of another shape.
bool IsLeftOut(const v1::WarmStartConfig& config, const Taker& taker,
               const absl::StatusOr<TrainedTensors::Tensor>& tensor) {
  const bool fits = tensor.ok() ? HasItsShape(config, taker, *tensor)
                                : !absl::IsNotFound(tensor.status());
  return !fits && MatchesAny(config.allow_missing(), taker.name);
}

std::string UnreadDType(const std::string& name,
                        const TrainedTensors::Tensor& tensor) {
  return absl::StrCat("'", name, "' in '", tensor.file, "' is ", tensor.dtype,
                      "; F32, F16 and BF16 are read");
}

// What keeps the rows of a tensor from being those of a keyed variable, as far
// as its keys do not say; empty: nothing.
std::string KeyedMistake(const v1::WarmStartConfig& config, const Taker& taker,
                         const std::string& name,
                         const TrainedTensors::Tensor& tensor) {
  if (IsTransposed(config, taker.name)) {
    return absl::StrCat("variable '", taker.name,
                        "' is keyed: its rows are not transposed");
  }
  if (!tensor.keyed) {
    return absl::StrCat("'", name, "' in '", tensor.file,
                        "' has no keys beside its rows ('", name,
                        "/slot:key' and '", name, "/slot:used'); variable '",
                        taker.name, "' has its rows by key");
  }
  if (!HasItsShape(config, taker, tensor)) {
    return absl::StrCat(
        "'", name, "' in '", tensor.file, "' has rows of ",
        tensor.shape.size() == 2 ? absl::StrCat(tensor.shape[1], " values")
                                 : ShapeName(tensor.shape),
        "; those of variable '", taker.name, "' have ", taker.shape[1]);
  }
  if (tensor.shape[0] == 0) {
    return absl::StrCat("'", name, "' in '", tensor.file, "' has no rows");
  }
  const absl::Status rows = CheckKeyedRows(tensor.shape[0], tensor.shape[1]);
  if (!rows.ok()) {
    return absl::StrCat("'", name, "' in '", tensor.file,
                        "': ", rows.message());
  }
  return IsTrainedDType(tensor.dtype) ? "" : UnreadDType(name, tensor);
}

// What keeps a tensor from being a variable's values; empty: nothing.
std::string Mistake(const v1::WarmStartConfig& config, const Taker& taker,
                    const std::string& name,
                    const TrainedTensors::Tensor& tensor) {
  if (taker.keyed) return KeyedMistake(config, taker, name, tensor);
  const absl::Span<const uint64_t> shape = taker.shape;
  if (tensor.keyed) {
    return absl::StrCat("'", name, "' in '", tensor.file,
                        "' has its rows by key; variable '", taker.name, "' (",
                        ShapeName(shape), ") has not");
  }
  const bool transposed = IsTransposed(config, taker.name);
  if (transposed && shape.size() > 2) {
    return absl::StrCat("variable '", taker.name, "' (", ShapeName(shape),
                        ") is not a matrix: only a matrix is transposed");
  }
  const std::vector<uint64_t> there = ShapeThere(config, taker.name, shape);
  if (tensor.shape != there) {
    const std::vector<uint64_t> exchanged(tensor.shape.rbegin(),
                                          tensor.shape.rend());
    return absl::StrCat(
        "'", name, "' in '", tensor.file, "' has the shape ",
        ShapeName(tensor.shape), "; variable '", taker.name, "' has ",
        ShapeName(shape),
        transposed ? absl::StrCat(", transposed ", ShapeName(there)) : "",
        exchanged == there && there.size() == 2
            ? absl::StrCat(transposed ? " (it fits as it is: take it out of "
                                      : " (it fits transposed: name it in ",
                           "warm_start.transpose)")
            : "");
  }
  return IsTrainedDType(tensor.dtype) ? "" : UnreadDType(name, tensor);
}

std::string Missing(const Taker& taker, const std::string& name) {
  return absl::StrCat("there is no '", name, "' for variable '", taker.name,
                      "' (", ShapeName(taker.shape),
                      taker.keyed ? " by key)" : ")");
}

// REQUIRES: KeyedMistake found nothing.
TrainedTable TableOf(const std::string& name,
                     const TrainedTensors::Tensor& tensor) {
  return {name, tensor.shape[0], tensor.shape[1]};
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
  if (!IsDirectory(path)) {
    RETURN_IF_ERROR(VerifyFileOfCheckpoint(path));
    return path;
  }
  if (TrainedFileIn(path) == kManifestFile ||
      ParseCheckpointName(path.substr(path.rfind('/') + 1)).has_value()) {
    RETURN_IF_ERROR(VerifyCheckpoint(path).status());
    return path;
  }
  if (!TrainedFileIn(path).empty()) return path;
  ASSIGN_OR_RETURN(const auto names, ListDirectory(path));
  if (std::binary_search(names.begin(), names.end(), kTrainedFile)) {
    return absl::StrCat(path, "/", kTrainedFile);
  }
  for (const std::string& root : {path, absl::StrCat(path, "/checkpoints")}) {
    if (!IsDirectory(root)) continue;
    ASSIGN_OR_RETURN(const std::string newest, NewestIn(root));
    if (!newest.empty()) return newest;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("'", path, "' holds no checkpoint, no ", kTrainedFile,
                   " and no ", kTrainedFile, ".index.json"));
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

// A matrix that fits either way is taken as it lies, which may not be meant.
void WarnOfSquares(const v1::WarmStartConfig& config,
                   absl::Span<const v1::Variable> all) {
  for (const v1::Variable& variable : all) {
    const auto name = SourceName(config, variable.name());
    if (!name.has_value() || *name == variable.name() || variable.keyed() ||
        variable.shape_size() != 2 || variable.shape(0) != variable.shape(1) ||
        IsTransposed(config, variable.name())) {
      continue;
    }
    Log(LogLevel::kWarning,
        "a square matrix is read as it is stored, inputs by outputs; if it is "
        "of PyTorch, name the variable in warm_start.transpose",
        {{"variable", variable.name()}, {"from", *name}});
  }
}

// Whether the rows that have a key have room in the variable.
absl::Status CheckRows(const TrainedTable& table, const v1::Variable& variable,
                       TrainedTensors* tensors) {
  ASSIGN_OR_RETURN(const uint64_t rows, CheckKeysFit(table, variable, tensors));
  Log(LogLevel::kInfo, "rows are taken by their keys",
      {{"variable", variable.name()}, {"from", table.tensor}, {"rows", rows}});
  return absl::OkStatus();
}

// OK with what keeps the variable from taking its values; empty: nothing. Other
// errors are of reading.
absl::StatusOr<std::string> CheckOne(
    const v1::WarmStartConfig& config, const v1::Variable& variable,
    const std::string& name,
    const absl::StatusOr<TrainedTensors::Tensor>& tensor,
    TrainedTensors* tensors) {
  const Taker taker = TakerOf(variable);
  absl::Status status = tensor.status();
  if (absl::IsNotFound(status)) return Missing(taker, name);
  if (status.ok()) {
    const std::string mistake = Mistake(config, taker, name, *tensor);
    if (!mistake.empty() || !variable.keyed()) return mistake;
    status = CheckRows(TableOf(name, *tensor), variable, tensors);
  }
  if (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) {
    return std::string(status.message());
  }
  RETURN_IF_ERROR(status);
  return std::string();
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
    if (IsLeftOut(config, TakerOf(variable), tensor)) continue;
    ASSIGN_OR_RETURN(std::string mistake,
                     CheckOne(config, variable, *name, tensor, tensors));
    ++found;
    // One file that is missing may have many of them.
    if (!mistake.empty() && !absl::c_linear_search(mistakes, mistake)) {
      mistakes.push_back(std::move(mistake));
    }
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
  WarnOfSquares(found, all);
  return found;
}

absl::Status CheckWarmStart(const v1::WarmStartConfig& config,
                            absl::Span<const v1::Variable> all) {
  const auto tensors = TrainedTensors::Open(config.path());
  if (!tensors.ok()) return AsOfThePath(tensors.status());
  return CheckAll(config, all, tensors->get());
}

namespace {

// Rows of a variable, in the order in which they are wanted.
struct WantedRows {
  std::string tensor;
  RowRange rows;
  // Of the variable, if the tensor is its transpose; else empty.
  std::vector<uint64_t> transposed_to;
  // They are taken by key, for a variable of so many rows.
  absl::optional<TrainedTable> table;
  uint64_t variable_rows = 0;
};

// Those rows of the transpose of one tensor, which is read once, in windows.
absl::Status ReadTransposed(absl::Span<const WantedRows> wanted,
                            TrainedTensors* tensors, BufferChain* out) {
  const uint64_t rows = wanted[0].transposed_to[0];
  const uint64_t columns = wanted[0].transposed_to[1];
  std::vector<Buffer> parts;
  for (const WantedRows& want : wanted) {
    parts.push_back(Buffer::Allocate((want.rows.end - want.rows.begin) *
                                     columns * sizeof(float)));
  }
  const uint64_t window =
      std::max<uint64_t>(1, kWindowBytes / (rows * sizeof(float)));
  std::vector<float> read;
  for (uint64_t begin = 0; begin < columns; begin += window) {
    const uint64_t end = std::min(columns, begin + window);
    BufferChain chain;
    RETURN_IF_ERROR(
        ReadFinite({{wanted[0].tensor, {begin, end}}}, tensors, &chain));
    read.resize((end - begin) * rows);
    ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(read)));
    for (size_t i = 0; i < wanted.size(); ++i) {
      auto* const to =
          reinterpret_cast<float*>(parts[i].mutable_bytes().data());
      const RowRange& part = wanted[i].rows;
      for (uint64_t row = part.begin; row < part.end; ++row) {
        for (uint64_t c = begin; c < end; ++c) {
          to[(row - part.begin) * columns + c] = read[(c - begin) * rows + row];
        }
      }
    }
  }
  for (Buffer& part : parts) out->push_back(std::move(part));
  return absl::OkStatus();
}

absl::Status ReadAll(absl::Span<const WantedRows> wanted,
                     TrainedTensors* tensors, BufferChain* out) {
  while (!wanted.empty()) {
    const WantedRows& first = wanted[0];
    if (first.table.has_value()) {
      RETURN_IF_ERROR(ReadRowsByKey(*first.table, first.variable_rows,
                                    first.rows, tensors, out));
      wanted.remove_prefix(1);
      continue;
    }
    // As many as lie there in the same way; transposed, of one tensor.
    size_t count = 1;
    while (
        count < wanted.size() && !wanted[count].table.has_value() &&
        wanted[count].transposed_to == first.transposed_to &&
        (first.transposed_to.empty() || wanted[count].tensor == first.tensor)) {
      ++count;
    }
    const auto part = wanted.first(count);
    wanted.remove_prefix(count);
    if (!first.transposed_to.empty()) {
      RETURN_IF_ERROR(ReadTransposed(part, tensors, out));
      continue;
    }
    std::vector<TrainedTensors::Rows> rows;
    for (const WantedRows& want : part)
      rows.push_back({want.tensor, want.rows});
    RETURN_IF_ERROR(ReadFinite(rows, tensors, out));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadWarmStart(const v1::ReadWarmStart& request,
                           v1::ReadWarmStartResult* result,
                           BufferChain* payload) {
  ASSIGN_OR_RETURN(const auto tensors,
                   TrainedTensors::Open(request.warm_start().path()));
  return ReadWarmStart(request, tensors.get(), result, payload);
}

absl::Status ReadWarmStart(const v1::ReadWarmStart& request,
                           TrainedTensors* tensors,
                           v1::ReadWarmStartResult* result,
                           BufferChain* payload) {
  const v1::WarmStartConfig& config = request.warm_start();
  std::vector<WantedRows> wanted;
  for (const v1::ReadSlices::Want& want : request.slices()) {
    result->add_found(false);
    const auto name = SourceName(config, want.variable());
    if (!name.has_value()) continue;
    const auto tensor = tensors->Find(*name);
    const auto shape = SpanOf(want.shape());
    const Taker taker = {want.variable(), shape, want.keyed()};
    if (IsLeftOut(config, taker, tensor)) continue;
    if (absl::IsNotFound(tensor.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", config.path(), "': ", Missing(taker, *name)));
    }
    RETURN_IF_ERROR(tensor.status());
    const std::string mistake = Mistake(config, taker, *name, *tensor);
    if (!mistake.empty()) return absl::InvalidArgumentError(mistake);
    ASSIGN_OR_RETURN(const RowShape rows, ToRowShape(shape));
    if (want.row_begin() >= want.row_end() || want.row_end() > rows.rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rows [", want.row_begin(), ", ", want.row_end(), ") of '",
          want.variable(), "' do not exist; it has ", rows.rows));
    }
    result->set_found(result->found_size() - 1, true);
    WantedRows& rows_wanted = wanted.emplace_back();
    rows_wanted.tensor = *name;
    rows_wanted.rows = {want.row_begin(), want.row_end()};
    if (want.keyed()) {
      rows_wanted.table = TableOf(*name, *tensor);
      rows_wanted.variable_rows = rows.rows;
    } else if (shape.size() == 2 && IsTransposed(config, want.variable())) {
      rows_wanted.transposed_to = {shape.begin(), shape.end()};
    }
  }
  return ReadAll(wanted, tensors, payload);
}

}  // namespace paramd
