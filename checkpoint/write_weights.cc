#include "checkpoint/write_weights.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/status_macros.h"
#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/verify.h"
#include "checkpoint/whole_directory.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

constexpr char kWeightsFile[] = "weights.safetensors";

// What a later job may ask of it.
v1::Manifest WithoutTraining(const v1::Manifest& from) {
  v1::Manifest manifest;
  manifest.set_job_name(from.job_name());
  manifest.set_job_digest(from.job_digest());
  manifest.set_run_id(from.run_id());
  *manifest.mutable_snapshot() = from.snapshot();
  manifest.set_global_step(from.global_step());
  manifest.set_created(
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()));
  *manifest.mutable_variables() = from.variables();
  manifest.set_final(from.final());
  *manifest.mutable_job() = from.job();
  manifest.set_format(paramd::FormatOf(manifest));
  manifest.set_min_reader(manifest.format());
  return manifest;
}

absl::Status WriteFiles(const std::string& directory,
                        absl::Span<const std::vector<float>> values,
                        v1::Manifest* manifest) {
  v1::WriteShard request;
  request.set_directory(directory);
  request.mutable_file()->set_name(kWeightsFile);
  BufferChain payload;
  for (int v = 0; v < manifest->variables_size(); ++v) {
    const v1::Variable& variable = manifest->variables(v);
    const auto bytes = AsBytes<float>(values[static_cast<size_t>(v)]);
    v1::WriteShard::Tensor* const tensor = request.add_tensors();
    tensor->set_name(variable.name());
    tensor->set_dtype(v1::FLOAT32);
    *tensor->mutable_shape() = variable.shape();
    tensor->set_bytes(bytes.size());
    payload.push_back(Buffer::Copy(bytes));
    v1::SavedSlice* const slice = request.mutable_file()->add_slices();
    slice->set_variable(variable.name());
    slice->set_row_end(variable.shape().empty() ? 1 : variable.shape(0));
    slice->set_values_tensor(variable.name());
  }
  ASSIGN_OR_RETURN(v1::WriteShardResult written,
                   WriteShardFile(request, payload));
  *manifest->add_files() = std::move(*written.mutable_file());
  RETURN_IF_ERROR(VerifyFiles(directory, *manifest));
  return WriteManifestFiles(directory, *manifest);
}

}  // namespace

absl::StatusOr<uint64_t> WriteWeights(
    const std::string& to, const v1::Manifest& from,
    absl::Span<const std::vector<float>> values,
    absl::FunctionRef<absl::Status(const std::string& directory)> more) {
  ASSIGN_OR_RETURN(const std::string path, AbsolutePath(to));
  if (ReadableFile::Open(path).ok() || IsDirectory(path)) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", path, "' exists; a checkpoint is a new directory"));
  }
  v1::Manifest manifest;
  const auto write = [&](const std::string& directory) -> absl::Status {
    manifest = WithoutTraining(from);
    RETURN_IF_ERROR(WriteFiles(directory, values, &manifest));
    return more(directory);
  };
  RETURN_IF_ERROR(MakeWholeDirectory(path, write).status());
  return CheckpointBytes(manifest);
}

}  // namespace paramd
