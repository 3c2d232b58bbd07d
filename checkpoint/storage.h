#ifndef PARAMD_CHECKPOINT_STORAGE_H_
#define PARAMD_CHECKPOINT_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace paramd {

// Where checkpoints lie: all that is asked of a disk, a shared file system or
// an object store. Everything else here is built on it and names things by
// path; StorageOf says whose a path is.
//
// What an implementation owes: what Finish and Rename have answered OK is found
// by everybody, also after a crash; nothing is ever found in part under its
// name, but for a directory while it is being renamed or removed. An object
// store, which has no directories, keeps the files of one under a common prefix
// and renames it by copying manifest.json last: a directory without one is no
// checkpoint.
//
// Errors name the path. Thread-safe.
class Storage {
 public:
  // A file that is being written and that nobody else had before.
  //
  // Invariant: unless Finish succeeded, the file is gone when this object is.
  // Not thread-safe.
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;
    // On OK the content is durable and the file closed; its name is durable
    // once the directory is synced.
    virtual absl::Status Finish() = 0;
  };

  // Thread-safe: every read names its offset.
  class Reader {
   public:
    virtual ~Reader() = default;
    // Fills `out` from `offset`; DATA_LOSS if the file ends before.
    virtual absl::Status ReadAt(uint64_t offset,
                                absl::Span<std::byte> out) const = 0;
    // When it was opened.
    virtual uint64_t size() const = 0;
  };

  // A directory that is kept open. Not thread-safe.
  class Held {
   public:
    virtual ~Held() = default;
    // OK while its path leads to it. NOT_FOUND if that leads nowhere,
    // FAILED_PRECONDITION naming both if it leads to another one.
    virtual absl::Status Check() const { return absl::OkStatus(); }
  };

  virtual ~Storage() = default;

  // Opens a directory that is there. A storage that has none holds nothing.
  virtual absl::StatusOr<std::unique_ptr<Held>> Hold(
      const std::string& /*path*/) {
    return std::make_unique<Held>();
  }
  // ALREADY_EXISTS if there is something of that name.
  virtual absl::StatusOr<std::unique_ptr<Writer>> Create(
      const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<Reader>> Open(
      const std::string& path) = 0;
  // Names in a directory, in any order.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) = 0;
  virtual bool IsDirectory(const std::string& path) = 0;
  // OK if it is there already. The one above it is there.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Makes the names in a directory durable.
  virtual absl::Status Sync(const std::string& path) = 0;
  // Gives a file or directory another name. A file replaces what had that name;
  // ALREADY_EXISTS if `to` is a directory that holds something.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // A file, or a directory with what is in it. OK if there is none.
  virtual absl::Status Remove(const std::string& path) = 0;
};

// The file systems of this machine, local and shared: a path without a scheme.
Storage& PosixStorage();

// Whose `path` is: "memory://a/b" is of the storage that was added for
// "memory", and one of a scheme that nobody added of none: each of its answers
// is INVALID_ARGUMENT. Any other path is PosixStorage's.
Storage& StorageOf(absl::string_view path);

// Makes paths of `scheme` those of `storage`, which lives as long as the
// process. Before other threads start.
void AddStorage(const std::string& scheme, Storage* storage);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_STORAGE_H_
