#include "checkpoint/shard_file.h"

#include <memory>
#include <random>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "tensor/disk_memory.h"

namespace paramd {
namespace {

constexpr size_t kAppendBytes = size_t{8} << 20;

absl::Status CheckSlicesResolve(const v1::ShardFile& file,
                                const std::vector<TensorInfo>& tensors) {
  absl::flat_hash_set<absl::string_view> names;
  for (const TensorInfo& tensor : tensors) names.insert(tensor.name);
  const auto check = [&](const v1::SavedSlice& slice,
                         const std::string& tensor) {
    if (names.contains(tensor)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "a slice of '", slice.variable(), "' in '", file.name(),
        "' names the tensor '", tensor, "', which is not written"));
  };
  const auto check_all = [&](const v1::SavedSlice& slice,
                             const auto& tensors) -> absl::Status {
    RETURN_IF_ERROR(check(slice, tensors.values_tensor()));
    for (const auto& [slot, tensor] : tensors.slot_tensors()) {
      RETURN_IF_ERROR(check(slice, tensor));
    }
    return absl::OkStatus();
  };
  for (const v1::SavedSlice& slice : file.slices()) {
    // With a base, that file has the slices' own.
    if (!file.has_base()) RETURN_IF_ERROR(check_all(slice, slice));
    for (const v1::ChangedBlocks& changed : slice.changed()) {
      RETURN_IF_ERROR(check_all(slice, changed));
    }
  }
  return absl::OkStatus();
}

// Two writers of one file never meet under one temporary name.
std::string TemporaryName(const v1::WriteShard& request) {
  std::random_device random;
  const uint64_t nonce = uint64_t{random()} << 32 | random();
  return absl::StrCat(request.directory(), "/.", request.file().name(), ".",
                      absl::Hex(nonce, absl::kZeroPad16));
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> PlanShardFile(
    const v1::WriteShard& request, uint64_t payload_bytes) {
  if (!IsShardFileName(request.file().name())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", request.file().name(), "' cannot name a file in a checkpoint"));
  }
  std::vector<TensorInfo> tensors;
  tensors.reserve(request.tensors_size());
  uint64_t end = 0;
  for (const v1::WriteShard::Tensor& tensor : request.tensors()) {
    const uint64_t begin = end;
    if (__builtin_add_overflow(begin, tensor.bytes(), &end) ||
        end > payload_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the payload of '", request.file().name(), "' has ", payload_bytes,
          " bytes; it ends within tensor '", tensor.name(), "'"));
    }
    tensors.push_back({tensor.name(),
                       std::string(SafetensorsDType(tensor.dtype())),
                       {tensor.shape().begin(), tensor.shape().end()},
                       begin,
                       end});
  }
  if (end != payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the payload of '", request.file().name(), "' has ",
                     payload_bytes, " bytes; its tensors have ", end));
  }
  RETURN_IF_ERROR(CheckSlicesResolve(request.file(), tensors));
  return tensors;
}

absl::StatusOr<BufferChain> ShardFileBytes(const v1::WriteShard& request,
                                           const BufferChain& payload) {
  ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors,
                   PlanShardFile(request, ChainSize(payload)));
  ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(tensors));
  BufferChain bytes = {Buffer::Copy(header)};
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

absl::StatusOr<v1::WriteShardResult> WriteShardFile(
    const v1::WriteShard& request, const BufferChain& payload) {
  ASSIGN_OR_RETURN(const BufferChain file_bytes,
                   ShardFileBytes(request, payload));
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file,
                   NewFile::Create(TemporaryName(request)));
  ChainReader reader(file_bytes);
  ChainReader ahead(file_bytes);
  ahead.Next(kAppendBytes);
  for (auto bytes = reader.Next(kAppendBytes); !bytes.empty();
       bytes = reader.Next(kAppendBytes)) {
    // Rows may lie on a disk: the next piece is read while this one is written.
    DiskMemory::ReadAhead({ahead.Next(kAppendBytes)});
    RETURN_IF_ERROR(file->Append(bytes));
  }
  RETURN_IF_ERROR(file->FinishAs(
      absl::StrCat(request.directory(), "/", request.file().name())));
  v1::WriteShardResult result;
  *result.mutable_file() = request.file();
  result.mutable_file()->set_bytes(file->bytes());
  result.mutable_file()->set_crc32c(file->crc32c());
  return result;
}

}  // namespace paramd
