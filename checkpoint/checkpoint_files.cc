#include "checkpoint/checkpoint_files.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"

namespace paramd {
namespace {

constexpr size_t kMaxOpenFiles = 64;

}  // namespace

std::string CheckpointFiles::PathOf(const File& file) const {
  if (file.directory.empty()) return absl::StrCat(directory_, "/", file.name);
  return absl::StrCat(DirectoryOf(directory_), "/", file.directory, "/",
                      file.name);
}

absl::StatusOr<const TensorInfo*> CheckpointFiles::Find(
    const File& file, const std::string& tensor) {
  ASSIGN_OR_RETURN(const SafetensorsFile* const open, Open(file));
  const TensorInfo* const info = open->Find(tensor);
  if (info != nullptr) return info;
  return absl::DataLossError(
      absl::StrCat("'", PathOf(file), "' has no tensor '", tensor, "'"));
}

absl::Status CheckpointFiles::Read(const File& file, const std::string& tensor,
                                   uint64_t offset, absl::Span<std::byte> out) {
  ASSIGN_OR_RETURN(const SafetensorsFile* const open, Open(file));
  return open->ReadInto(*open->Find(tensor), offset, out);
}

absl::StatusOr<const SafetensorsFile*> CheckpointFiles::Open(const File& file) {
  const std::string path = PathOf(file);
  auto found = open_.find(path);
  if (found == open_.end()) {
    if (open_.size() >= kMaxOpenFiles) open_.clear();
    ASSIGN_OR_RETURN(auto opened, SafetensorsFile::Open(path));
    found = open_.emplace(path, std::move(opened)).first;
  }
  return found->second.get();
}

}  // namespace paramd
