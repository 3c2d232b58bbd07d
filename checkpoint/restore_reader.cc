#include "checkpoint/restore_reader.h"

#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/range_sum.h"
#include "checkpoint/slice_reader.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

// The files of a checkpoint, and sums of what is read of some of them.
class SummedFiles : public TensorSource {
 public:
  explicit SummedFiles(std::string directory) : files_(std::move(directory)) {}

  // From now on what is read of this file counts.
  void Sum(const File& file, uint64_t bytes, uint32_t crc32c) {
    sums_[files_.PathOf(file)].expected = {bytes, crc32c};
  }

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override {
    return files_.Find(file, tensor);
  }
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, uint64_t length,
                    BufferChain* out) override {
    const size_t had = out->size();
    RETURN_IF_ERROR(files_.Read(file, tensor, offset, length, out));
    const auto sum = sums_.find(files_.PathOf(file));
    if (sum == sums_.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const SafetensorsFile* const open, files_.Open(file));
    uint64_t at = open->data_begin() + open->Find(tensor)->begin + offset;
    for (size_t i = had; i < out->size(); ++i) {
      sum->second.read.Add(at, (*out)[i].bytes());
      at += (*out)[i].size();
    }
    return absl::OkStatus();
  }

  // Whether all files of which Sum was called are what it said.
  absl::Status Check() {
    for (auto& [path, sum] : sums_) {
      ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
      RETURN_IF_ERROR(CheckSize(path, file->size(), sum.expected.bytes));
      ASSIGN_OR_RETURN(const FileSum found, sum.read.Finish(*file));
      RETURN_IF_ERROR(CheckSum(path, found.crc32c, sum.expected.crc32c));
    }
    return absl::OkStatus();
  }

 private:
  struct Summed {
    FileSum expected;
    RangeSum read;
  };

  CheckpointFiles files_;
  std::map<std::string, Summed> sums_;  // By path.
};

}  // namespace

struct RestoreReader::Open {
  explicit Open(const std::string& directory) : files(directory) {}

  v1::Manifest manifest;
  SliceIndex index;  // Points into the manifest.
  SummedFiles files;
};

RestoreReader::RestoreReader() = default;
RestoreReader::~RestoreReader() = default;

absl::Status RestoreReader::Read(const v1::ReadSlices& request,
                                 v1::ReadSlicesResult* result,
                                 BufferChain* payload) {
  if (request.first() || request.path() != path_) open_.reset();
  if (open_ == nullptr) {
    auto open = std::make_unique<Open>(request.path());
    ASSIGN_OR_RETURN(open->manifest, ReadManifest(request.path()));
    ASSIGN_OR_RETURN(open->index, SliceIndex::Create(open->manifest));
    const v1::ReadSlices::Share& share = request.check();
    for (int f = 0; f < open->manifest.files_size(); ++f) {
      if (share.of() == 0 || f % share.of() != share.index()) continue;
      const v1::ShardFile& file = open->manifest.files(f);
      open->files.Sum({"", file.name()}, file.bytes(), file.crc32c());
      if (!file.has_base()) continue;
      open->files.Sum(WholeSlicesOf(file), file.base().bytes(),
                      file.base().crc32c());
    }
    path_ = request.path();
    open_ = std::move(open);
  }
  result->mutable_manifest()->set_run_id(open_->manifest.run_id());
  RETURN_IF_ERROR(
      ReadSlices(request, open_->index, &open_->files, result, payload));
  if (!request.last()) return absl::OkStatus();
  const std::unique_ptr<Open> open = std::move(open_);
  return open->files.Check();
}

}  // namespace paramd
