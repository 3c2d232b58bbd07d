#include "checkpoint/verified_files.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/read_again.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/verify.h"

namespace paramd {

absl::Status OfCheckpointFile(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(MayPass(status) ? absl::StatusCode::kUnavailable
                                      : absl::StatusCode::kDataLoss,
                      status.message());
}

VerifiedFiles::VerifiedFiles(std::string directory,
                             const v1::Manifest& manifest)
    : files_(std::move(directory)) {
  for (const v1::ShardFile& file : manifest.files()) {
    expected_[files_.PathOf({"", file.name()})] = {file.bytes(), file.crc32c()};
    if (!file.has_base()) continue;
    expected_[files_.PathOf(WholeSlicesOf(file))] = {file.base().bytes(),
                                                     file.base().crc32c()};
  }
}

RangeSum* VerifiedFiles::CountPath(const std::string& path) {
  const auto [sum, is_new] = sums_.try_emplace(path);
  if (is_new) total_bytes_ += expected_.at(path).bytes;
  return &sum->second;
}

void VerifiedFiles::Count(const v1::ShardFile& file) {
  CountPath(files_.PathOf({"", file.name()}));
  if (file.has_base()) CountPath(files_.PathOf(WholeSlicesOf(file)));
}

absl::StatusOr<const TensorInfo*> VerifiedFiles::Find(
    const File& file, const std::string& tensor) {
  auto found = files_.Find(file, tensor);
  if (!found.ok()) return OfCheckpointFile(found.status());
  return found;
}

absl::Status VerifiedFiles::Read(const File& file, const std::string& tensor,
                                 uint64_t offset, absl::Span<std::byte> out) {
  const std::string path = files_.PathOf(file);
  const bool counts = count_what_is_read_ || sums_.count(path) > 0;
  return OfCheckpointFile(
      files_.ReadSeen(file, tensor, offset, out,
                      [&](uint64_t from, absl::Span<const std::byte> bytes) {
                        if (!counts) return;
                        RangeSum* const sum = CountPath(path);
                        read_bytes_ -= sum->bytes();
                        sum->Add(from, bytes);
                        read_bytes_ += sum->bytes();
                      }));
}

absl::Status VerifiedFiles::Check(
    const std::function<void(uint64_t bytes, uint64_t total)>& progress) {
  const auto read = [&](uint64_t bytes) {
    read_bytes_ += bytes;
    if (progress) progress(read_bytes_, total_bytes_);
  };
  for (auto& [path, sum] : sums_) {
    RETURN_IF_ERROR(OfCheckpointFile(CheckFile(path, &sum, read)));
  }
  return absl::OkStatus();
}

absl::Status VerifiedFiles::CheckFile(
    const std::string& path, RangeSum* sum,
    const std::function<void(uint64_t bytes)>& progress) {
  const FileSum& expected = expected_.at(path);
  ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
  RETURN_IF_ERROR(CheckSize(path, file->size(), expected.bytes));
  ASSIGN_OR_RETURN(const FileSum found, sum->Finish(*file, progress));
  return CheckSum(path, found.crc32c, expected.crc32c);
}

}  // namespace paramd
