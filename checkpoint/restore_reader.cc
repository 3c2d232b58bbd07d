#include "checkpoint/restore_reader.h"

#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/blocks_target.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/range_sum.h"
#include "checkpoint/read_again.h"
#include "checkpoint/read_buffers.h"
#include "checkpoint/read_target.h"
#include "checkpoint/slice_reader.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

// What reading a file of the checkpoint failed with: whatever it is, an older
// checkpoint may be whole.
absl::Status OfFile(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(MayPass(status) ? absl::StatusCode::kUnavailable
                                      : absl::StatusCode::kDataLoss,
                      status.message());
}

absl::StatusOr<v1::Manifest> ReadManifestOf(const std::string& path) {
  auto manifest = ReadManifest(path);
  // It needs a newer reader.
  if (absl::IsFailedPrecondition(manifest.status())) return manifest;
  if (!manifest.ok()) return OfFile(manifest.status());
  return manifest;
}

// The files of a checkpoint, and sums of what is read of some of them.
class SummedFiles : public TensorSource {
 public:
  explicit SummedFiles(std::string directory) : files_(std::move(directory)) {}

  // What the manifest says of a file.
  void Expect(const File& file, const FileSum& expected, bool share) {
    const std::string path = files_.PathOf(file);
    expected_[path] = expected;
    if (share) sums_[path];
  }
  // From now on what is read of any file counts.
  void SumAll() { all_ = true; }

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override {
    auto found = files_.Find(file, tensor);
    if (!found.ok()) return OfFile(found.status());
    return found;
  }
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, absl::Span<std::byte> out) override {
    RETURN_IF_ERROR(OfFile(files_.Read(file, tensor, offset, out)));
    const std::string path = files_.PathOf(file);
    if (all_) sums_[path];
    const auto sum = sums_.find(path);
    if (sum == sums_.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const SafetensorsFile* const open, files_.Open(file));
    sum->second.Add(open->data_begin() + open->Find(tensor)->begin + offset,
                    out);
    return absl::OkStatus();
  }

  // Whether the files that count are what the manifest says.
  absl::Status Check() {
    for (auto& [path, sum] : sums_) {
      RETURN_IF_ERROR(OfFile(CheckFile(path, expected_.at(path), &sum)));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckFile(const std::string& path,
                                const FileSum& expected, RangeSum* sum) {
    ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
    RETURN_IF_ERROR(CheckSize(path, file->size(), expected.bytes));
    ASSIGN_OR_RETURN(const FileSum found, sum->Finish(*file));
    return CheckSum(path, found.crc32c, expected.crc32c);
  }

  CheckpointFiles files_;
  bool all_ = false;
  // By path: what each file should be, and what was read of those that count.
  std::map<std::string, FileSum> expected_;
  std::map<std::string, RangeSum> sums_;
};

}  // namespace

struct RestoreReader::Open {
  explicit Open(const std::string& directory) : files(directory) {}

  v1::Manifest manifest;
  SliceIndex index;  // Points into the manifest.
  SummedFiles files;
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
    auto open = std::make_unique<Open>(request.path());
    ASSIGN_OR_RETURN(open->manifest, ReadManifestOf(request.path()));
    ASSIGN_OR_RETURN(open->index, SliceIndex::Create(open->manifest));
    const v1::ReadSlices::Share& share = request.check();
    for (int f = 0; f < open->manifest.files_size(); ++f) {
      const bool is_own = share.of() != 0 && f % share.of() == share.index();
      const v1::ShardFile& file = open->manifest.files(f);
      open->files.Expect({"", file.name()}, {file.bytes(), file.crc32c()},
                         is_own);
      if (!file.has_base()) continue;
      open->files.Expect(WholeSlicesOf(file),
                         {file.base().bytes(), file.base().crc32c()}, is_own);
    }
    if (share.alone()) open->files.SumAll();
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
