#include "checkpoint/file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "checkpoint/file_error.h"
#include "checkpoint/read_again.h"

namespace paramd {
namespace {

constexpr size_t kReadBytes = size_t{4} << 20;

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Create(std::string path) {
  ASSIGN_OR_RETURN(auto writer, StorageOf(path).Create(path));
  return std::unique_ptr<NewFile>(
      new NewFile(std::move(path), std::move(writer)));
}

absl::Status NewFile::Append(absl::Span<const std::byte> bytes) {
  RETURN_IF_ERROR(writer_->Append(bytes));
  crc32c_ = Crc32c(bytes, crc32c_);
  bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::Status NewFile::Append(absl::string_view bytes) {
  return Append(BytesOf(bytes));
}

absl::Status NewFile::Finish() { return writer_->Finish(); }

absl::Status NewFile::FinishAs(const std::string& path) {
  RETURN_IF_ERROR(Finish());
  const absl::Status renamed = RenamePath(path_, path);
  if (!renamed.ok()) {
    RemoveTree(path_).IgnoreError();
    return renamed;
  }
  return SyncDirectory(DirectoryOf(path));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> ReadableFile::Open(
    std::string path) {
  std::unique_ptr<Storage::Reader> reader;
  RETURN_IF_ERROR(ReadAgain([&]() -> absl::Status {
    ASSIGN_OR_RETURN(reader, StorageOf(path).Open(path));
    return absl::OkStatus();
  }));
  return std::unique_ptr<ReadableFile>(
      new ReadableFile(std::move(path), std::move(reader)));
}

absl::Status ReadableFile::ReadAt(uint64_t offset,
                                  absl::Span<std::byte> out) const {
  const absl::Status first = reader_->ReadAt(offset, out);
  if (!MayPass(first)) return first;
  bool is_first = true;
  return ReadAgain([&]() -> absl::Status {
    if (std::exchange(is_first, false)) return first;
    // A handle that is stale stays so. Another one of this name may be another
    // file, of another size: whoever reads a checkpoint looks at its sum.
    ASSIGN_OR_RETURN(const auto again, StorageOf(path_).Open(path_));
    return again->ReadAt(offset, out);
  });
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t limit) {
  ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
  if (file->size() > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", path, "' has ", file->size(), " bytes; at most ",
                     limit, " are read"));
  }
  std::string content(file->size(), '\0');
  RETURN_IF_ERROR(file->ReadAt(
      0, {reinterpret_cast<std::byte*>(content.data()), content.size()}));
  return content;
}

absl::StatusOr<FileSum> SumFile(
    const std::string& path,
    const std::function<void(uint64_t bytes)>& progress) {
  ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
  FileSum sum;
  std::vector<std::byte> piece(kReadBytes);
  while (sum.bytes < file->size()) {
    const size_t length =
        std::min<uint64_t>(piece.size(), file->size() - sum.bytes);
    const absl::Span<std::byte> out(piece.data(), length);
    RETURN_IF_ERROR(file->ReadAt(sum.bytes, out));
    sum.crc32c = Crc32c(out, sum.crc32c);
    sum.bytes += length;
    if (progress) progress(length);
  }
  return sum;
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& path) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(ReadAgain([&]() -> absl::Status {
    ASSIGN_OR_RETURN(names, StorageOf(path).List(path));
    return absl::OkStatus();
  }));
  std::sort(names.begin(), names.end());
  return names;
}

bool IsDirectory(const std::string& path) {
  return StorageOf(path).IsDirectory(path);
}

absl::Status MakeDirectories(const std::string& path) {
  if (IsDirectory(path)) return absl::OkStatus();
  const std::string above = DirectoryOf(path);
  if (above != path) RETURN_IF_ERROR(MakeDirectories(above));
  return MakeDirectory(path);
}

absl::Status MakeDirectory(const std::string& path) {
  RETURN_IF_ERROR(StorageOf(path).MakeDirectory(path));
  return SyncDirectory(DirectoryOf(path));
}

absl::Status SyncDirectory(const std::string& path) {
  return StorageOf(path).Sync(path);
}

absl::Status RenamePath(const std::string& from, const std::string& to) {
  return StorageOf(to).Rename(from, to);
}

absl::Status RemoveTree(const std::string& path) {
  return StorageOf(path).Remove(path);
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  if (&StorageOf(path) != &PosixStorage()) return path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return FileError(error.value(), "resolve", path);
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string DirectoryOf(const std::string& path) {
  const std::string above = std::filesystem::path(path).parent_path().string();
  return above.empty() ? "." : above;
}

}  // namespace paramd
