#include "checkpoint/storage.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

// Of paths whose scheme nobody has added.
class NoStorage : public Storage {
 public:
  absl::StatusOr<std::unique_ptr<Held>> Hold(const std::string& path) override {
    return Refuse(path);
  }
  absl::StatusOr<std::unique_ptr<Writer>> Create(
      const std::string& path) override {
    return Refuse(path);
  }
  absl::StatusOr<std::unique_ptr<Reader>> Open(
      const std::string& path) override {
    return Refuse(path);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    return Refuse(path);
  }
  bool IsDirectory(const std::string&) override { return false; }
  absl::Status MakeDirectory(const std::string& path) override {
    return Refuse(path);
  }
  absl::Status Sync(const std::string& path) override { return Refuse(path); }
  absl::Status Rename(const std::string&, const std::string& to) override {
    return Refuse(to);
  }
  absl::Status Remove(const std::string& path) override { return Refuse(path); }

 private:
  static absl::Status Refuse(const std::string& path) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is on a storage that paramd does not know"));
  }
};

std::map<std::string, Storage*>& Added() {
  static auto* const added = new std::map<std::string, Storage*>();
  return *added;
}

}  // namespace

Storage& StorageOf(absl::string_view path) {
  const size_t end = path.find("://");
  if (end == absl::string_view::npos || end == 0 || path[0] == '/') {
    return PosixStorage();
  }
  static NoStorage* const none = new NoStorage();
  const auto found = Added().find(std::string(path.substr(0, end)));
  return found == Added().end() ? *none : *found->second;
}

void AddStorage(const std::string& scheme, Storage* storage) {
  Added()[scheme] = storage;
}

}  // namespace paramd
