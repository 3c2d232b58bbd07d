#include "checkpoint/testing/memory_storage.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paramd::testing {
namespace {

using Objects = std::map<std::string, std::string>;

class MemoryWriter : public Storage::Writer {
 public:
  MemoryWriter(std::string key, Objects* objects)
      : key_(std::move(key)), objects_(*objects) {}

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    content_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    objects_[key_] = content_;
    return absl::OkStatus();
  }

 private:
  const std::string key_;
  Objects& objects_;
  std::string content_;
};

class MemoryReader : public Storage::Reader {
 public:
  MemoryReader(std::string key, std::string content)
      : key_(std::move(key)), content_(std::move(content)) {}

  absl::Status ReadAt(uint64_t offset,
                      absl::Span<std::byte> out) const override {
    if (offset > content_.size() || out.size() > content_.size() - offset) {
      return absl::DataLossError(absl::StrCat("'", key_, "' ends at byte ",
                                              content_.size(), ", before byte ",
                                              offset + out.size()));
    }
    std::memcpy(out.data(), content_.data() + offset, out.size());
    return absl::OkStatus();
  }
  uint64_t size() const override { return content_.size(); }

 private:
  const std::string key_;
  const std::string content_;
};

}  // namespace

std::vector<std::string> MemoryStorage::KeysOf(const std::string& path) const {
  std::vector<std::string> keys;
  for (const auto& [key, content] : objects_) {
    if (key == path || absl::StartsWith(key, path + "/")) keys.push_back(key);
  }
  return keys;
}

absl::StatusOr<std::unique_ptr<Storage::Writer>> MemoryStorage::Create(
    const std::string& path) {
  if (objects_.count(path) > 0) {
    return absl::AlreadyExistsError(absl::StrCat("'", path, "' is there"));
  }
  return std::make_unique<MemoryWriter>(path, &objects_);
}

absl::StatusOr<std::unique_ptr<Storage::Reader>> MemoryStorage::Open(
    const std::string& path) {
  const auto found = objects_.find(path);
  if (found == objects_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no '", path, "'"));
  }
  return std::make_unique<MemoryReader>(path, found->second);
}

absl::StatusOr<std::vector<std::string>> MemoryStorage::List(
    const std::string& path) {
  std::set<std::string> names;
  for (const std::string& key : KeysOf(path)) {
    if (key == path) continue;
    const std::string below = key.substr(path.size() + 1);
    names.insert(below.substr(0, below.find('/')));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

bool MemoryStorage::IsDirectory(const std::string& path) {
  return objects_.count(path) == 0;
}

absl::Status MemoryStorage::Rename(const std::string& from,
                                   const std::string& to) {
  if (!KeysOf(to + "/").empty()) {
    return absl::AlreadyExistsError(absl::StrCat("'", to, "' is there"));
  }
  std::vector<std::string> keys = KeysOf(from);
  std::stable_partition(keys.begin(), keys.end(), [](const std::string& key) {
    return !absl::EndsWith(key, "/manifest.json");
  });
  for (const std::string& key : keys) {
    objects_[to + key.substr(from.size())] = objects_[key];
  }
  for (const std::string& key : keys) objects_.erase(key);
  return absl::OkStatus();
}

absl::Status MemoryStorage::Remove(const std::string& path) {
  for (const std::string& key : KeysOf(path)) objects_.erase(key);
  return absl::OkStatus();
}

}  // namespace paramd::testing
