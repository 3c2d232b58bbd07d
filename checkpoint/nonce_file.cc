#include "checkpoint/nonce_file.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"

namespace paramd {
namespace {

std::string PathIn(const std::string& directory) {
  return absl::StrCat(directory, "/", kNonceFile);
}

std::string TextOf(uint64_t nonce) {
  return absl::StrCat(absl::Hex(nonce, absl::kZeroPad16), "\n");
}

}  // namespace

absl::Status WriteNonceFile(const std::string& directory, uint64_t nonce) {
  RETURN_IF_ERROR(RemoveTree(PathIn(directory)));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(PathIn(directory)));
  RETURN_IF_ERROR(file->Append(TextOf(nonce)));
  RETURN_IF_ERROR(file->Finish());
  return SyncDirectory(directory);
}

bool HasNonceFile(const std::string& directory, uint64_t nonce) {
  const std::string text = TextOf(nonce);
  const auto found = ReadWholeFile(PathIn(directory), text.size());
  return found.ok() && *found == text;
}

}  // namespace paramd
