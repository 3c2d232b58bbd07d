#ifndef PARAMD_BASE_FUZZ_MEMORY_FILE_H_
#define PARAMD_BASE_FUZZ_MEMORY_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paramd::fuzz {

// A file in memory that has a path, for readers that open one: written anew for
// each input, since making one takes longer than most targets.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Has this content from now on, and no other.
  void Write(absl::string_view content);

  const std::string& path() const { return path_; }
  // A descriptor of the same file that the caller closes.
  int Duplicate() const;

 private:
  const int fd_;
  const std::string path_;
};

}  // namespace paramd::fuzz

#endif  // PARAMD_BASE_FUZZ_MEMORY_FILE_H_
