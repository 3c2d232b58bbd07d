#ifndef PARAMD_CHECKPOINT_FILE_H_
#define PARAMD_CHECKPOINT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "checkpoint/storage.h"

namespace paramd {

// A file that is being written and that nobody else had before.
//
// Invariant: unless Finish or FinishAs succeeded, the file is gone when this
// object is. Not thread-safe.
class NewFile {
 public:
  // ALREADY_EXISTS if there is something of that name; otherwise what its
  // storage failed with.
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(std::string path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Append(absl::Span<const std::byte> bytes);
  absl::Status Append(absl::string_view bytes);

  // On OK the content is durable and the file closed; its name is durable once
  // the directory is synced.
  absl::Status Finish();
  // Finish, then renames to `path`, replacing what had that name, and syncs the
  // directory.
  absl::Status FinishAs(const std::string& path);

  // Of all that was appended.
  uint64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc32c_; }

 private:
  NewFile(std::string path, std::unique_ptr<Storage::Writer> writer)
      : path_(std::move(path)), writer_(std::move(writer)) {}

  const std::string path_;
  const std::unique_ptr<Storage::Writer> writer_;
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;
};

// A file that is read. What may pass, a stale handle for one, is tried again
// for some seconds (read_again.h), by its name. Thread-safe: every read names
// its offset.
class ReadableFile {
 public:
  static absl::StatusOr<std::unique_ptr<ReadableFile>> Open(std::string path);
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  // Fills `out` from `offset`; DATA_LOSS if the file ends before.
  absl::Status ReadAt(uint64_t offset, absl::Span<std::byte> out) const;

  // When it was opened.
  uint64_t size() const { return reader_->size(); }
  const std::string& path() const { return path_; }

 private:
  ReadableFile(std::string path, std::unique_ptr<Storage::Reader> reader)
      : path_(std::move(path)), reader_(std::move(reader)) {}

  const std::string path_;
  const std::unique_ptr<Storage::Reader> reader_;
};

// The whole file; RESOURCE_EXHAUSTED if it is longer than `limit`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t limit);

struct FileSum {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};
// Reads the file from front to back; after each piece of it `progress`, unless
// null, is told the piece's bytes.
absl::StatusOr<FileSum> SumFile(
    const std::string& path,
    const std::function<void(uint64_t bytes)>& progress = nullptr);

// Names in a directory, sorted, without "." and "..". What may pass is tried
// again.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

bool IsDirectory(const std::string& path);

// Makes the directory and those above it that are missing, durably. OK if it
// is there already.
absl::Status MakeDirectories(const std::string& path);

// Makes the directory in one that is there, durably. OK if it is there already;
// NOT_FOUND if the one above it is not.
absl::Status MakeDirectory(const std::string& path);

// Makes the names in a directory durable.
absl::Status SyncDirectory(const std::string& path);

// Gives a file or directory another name; ALREADY_EXISTS if `to` is a directory
// that holds something.
absl::Status RenamePath(const std::string& from, const std::string& to);

// Deletes a file, or a directory with what is in it. OK if there is none.
absl::Status RemoveTree(const std::string& path);

// The path from the root of the file system; of another storage as it is.
absl::StatusOr<std::string> AbsolutePath(const std::string& path);

// The directory that `path` lies in.
std::string DirectoryOf(const std::string& path);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_FILE_H_
