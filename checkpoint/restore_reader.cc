#include "checkpoint/restore_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/blocks_target.h"
#include "checkpoint/manifest.h"
#include "checkpoint/read_buffers.h"
#include "checkpoint/read_target.h"
#include "checkpoint/slice_reader.h"
#include "checkpoint/verified_files.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

absl::StatusOr<v1::Manifest> ReadManifestOf(const std::string& path) {
  auto manifest = ReadManifest(path);
  // It needs a newer reader.
  if (absl::IsFailedPrecondition(manifest.status())) return manifest;
  if (!manifest.ok()) return OfCheckpointFile(manifest.status());
  RETURN_IF_ERROR(CheckCheckpointName(path, *manifest));
  return manifest;
}

}  // namespace

struct RestoreReader::Open {
  Open(const std::string& directory, v1::Manifest read)
      : manifest(std::move(read)), files(directory, manifest) {}

  const v1::Manifest manifest;
  SliceIndex index;  // Points into the manifest.
  VerifiedFiles files;
  ReadBuffers buffers;

  absl::Status ReadTo(const v1::ReadSlices& request,
                      v1::ReadSlicesResult* result, BufferChain* payload) {
    if (!payload->empty()) {
      auto blocks = BlocksTarget::Create(request, payload);
      if (blocks.ok()) {
        RETURN_IF_ERROR(ReadSlices(request, index, &files, result, &*blocks));
        if (blocks->full()) return absl::OkStatus();
        return absl::DataLossError(
            absl::StrCat("'", request.path(), "' has less than was asked for"));
      }
      payload->clear();
    }
    ChainTarget chain(&buffers, payload);
    return ReadSlices(request, index, &files, result, &chain);
  }
};

RestoreReader::RestoreReader() = default;
RestoreReader::~RestoreReader() = default;

absl::Status RestoreReader::Read(const v1::ReadSlices& request,
                                 v1::ReadSlicesResult* result,
                                 BufferChain* payload) {
  if (request.first() || request.path() != path_) open_.reset();
  if (open_ == nullptr) {
    ASSIGN_OR_RETURN(v1::Manifest manifest, ReadManifestOf(request.path()));
    auto open = std::make_unique<Open>(request.path(), std::move(manifest));
    ASSIGN_OR_RETURN(open->index, SliceIndex::Create(open->manifest));
    const v1::ReadSlices::Share& share = request.check();
    for (int f = 0; f < open->manifest.files_size(); ++f) {
      if (share.of() == 0 || f % share.of() != share.index()) continue;
      open->files.Count(open->manifest.files(f));
    }
    if (share.alone()) open->files.CountWhatIsRead();
    path_ = request.path();
    open_ = std::move(open);
  }
  result->mutable_manifest()->set_run_id(open_->manifest.run_id());
  RETURN_IF_ERROR(open_->ReadTo(request, result, payload));
  if (!request.last()) return absl::OkStatus();
  const std::unique_ptr<Open> open = std::move(open_);
  return open->files.Check();
}

}  // namespace paramd
