#ifndef PARAMD_CHECKPOINT_TESTING_MEMORY_STORAGE_H_
#define PARAMD_CHECKPOINT_TESTING_MEMORY_STORAGE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/storage.h"

namespace paramd::testing {

// A storage as object stores are: whole objects by key and nothing else. A
// directory is there while an object's key begins with its path, and is renamed
// object by object, manifest.json last.
//
// Not thread-safe.
class MemoryStorage : public Storage {
 public:
  absl::StatusOr<std::unique_ptr<Writer>> Create(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<Reader>> Open(
      const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override;
  bool IsDirectory(const std::string& path) override;
  absl::Status MakeDirectory(const std::string&) override { return {}; }
  absl::Status Sync(const std::string&) override { return {}; }
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;

  // By key.
  std::map<std::string, std::string>& objects() { return objects_; }

 private:
  // Keys of the object of this name, or of all below a directory of it.
  std::vector<std::string> KeysOf(const std::string& path) const;

  std::map<std::string, std::string> objects_;
};

}  // namespace paramd::testing

#endif  // PARAMD_CHECKPOINT_TESTING_MEMORY_STORAGE_H_
