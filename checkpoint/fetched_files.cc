#include "checkpoint/fetched_files.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/manifest.h"

namespace paramd {
namespace {

constexpr size_t kFetchedBytes = size_t{8} << 20;

}  // namespace

absl::StatusOr<NewFile*> FetchedFiles::Open(const v1::WriteFetched& request) {
  if (request.directory() != directory_) {
    open_.clear();
    directory_ = request.directory();
  }
  if (request.offset() == 0) {
    const std::string path =
        absl::StrCat(directory_, "/.", request.name(), ".fetched");
    open_.erase(request.name());
    // What a chief before this one left.
    RETURN_IF_ERROR(RemoveTree(path));
    ASSIGN_OR_RETURN(open_[request.name()], NewFile::Create(path));
  }
  const auto file = open_.find(request.name());
  const uint64_t bytes = file == open_.end() ? 0 : file->second->bytes();
  if (file == open_.end() || bytes != request.offset()) {
    return absl::FailedPreconditionError(
        absl::StrCat("bytes from ", request.offset(), " of '", directory_, "/",
                     request.name(), "' were to be written; it has ", bytes));
  }
  return file->second.get();
}

absl::StatusOr<v1::WriteFetchedResult> FetchedFiles::Write(
    const v1::WriteFetched& request, const BufferChain& payload) {
  const uint64_t size = ChainSize(payload);
  if (!IsShardFileName(request.name()) || request.offset() > request.total() ||
      size > request.total() - request.offset()) {
    return absl::InvalidArgumentError(absl::StrCat(
        size, " bytes from ", request.offset(), " of ", request.total(),
        " were to be written to '", request.name(), "'"));
  }
  ASSIGN_OR_RETURN(NewFile* const file, Open(request));
  // Done or failed, it is open no longer.
  auto ended = absl::MakeCleanup([&] { open_.erase(request.name()); });
  ChainReader reader(payload);
  for (auto bytes = reader.Next(kFetchedBytes); !bytes.empty();
       bytes = reader.Next(kFetchedBytes)) {
    RETURN_IF_ERROR(file->Append(bytes));
  }
  v1::WriteFetchedResult result;
  result.set_bytes(file->bytes());
  result.set_crc32c(file->crc32c());
  if (file->bytes() < request.total()) {
    std::move(ended).Cancel();
    return result;
  }
  RETURN_IF_ERROR(
      file->FinishAs(absl::StrCat(directory_, "/", request.name())));
  return result;
}

}  // namespace paramd
