#ifndef PARAMD_BASE_LFS_POINTER_H_
#define PARAMD_BASE_LFS_POINTER_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paramd {

// What lies in place of a large file in a repository that was cloned without
// Git LFS: a text of fewer bytes than this.
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
inline constexpr size_t kMostLfsPointerBytes = 1024;
inline constexpr absl::string_view kLfsPointerBegin =
    "version https://git-lfs.github.com/spec/";

// What to say of a file that begins so, and is that small.
inline std::string LfsPointerSentence(absl::string_view path) {
  return absl::StrCat("'", path,
                      "' is a Git LFS pointer, not the file: run git lfs pull");
}

}  // namespace paramd

#endif  // PARAMD_BASE_LFS_POINTER_H_
