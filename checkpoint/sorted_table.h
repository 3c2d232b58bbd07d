#ifndef PARAMD_CHECKPOINT_SORTED_TABLE_H_
#define PARAMD_CHECKPOINT_SORTED_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "checkpoint/file.h"

namespace paramd {

// Appends `value` in groups of seven bits, the lowest first (LEB128), as tables
// and protocol buffers have it.
void AppendVarint(uint64_t value, std::string* out);

// Writes LevelDB's table format (leveldb/doc/table_format.md), in which
// TensorFlow keeps the index of a TensorBundle: blocks of sorted keys and
// values, uncompressed, a key only what is different from the one before; an
// index of the blocks; a footer of 48 bytes. The whole format is the hundred
// lines of the source; a library for it would be one more package to everybody
// who builds.
//
// Holds one block and, for each block, its last key. Not thread-safe. The file
// outlives it.
class SortedTableWriter {
 public:
  explicit SortedTableWriter(NewFile* file) : file_(file) {}

  // What writing the file fails with. REQUIRES: `key` is higher, byte by byte,
  // than the one before.
  absl::Status Add(absl::string_view key, absl::string_view value);
  // Nothing is added after it. The file is not finished.
  absl::Status Finish();

 private:
  // Keys and values with a prefix of a key left out; where it is not is told at
  // the end of the block.
  class Block {
   public:
    explicit Block(int entries_per_restart)
        : entries_per_restart_(entries_per_restart) {}
    void Add(absl::string_view key, absl::string_view value);
    // Its bytes, with which it begins anew.
    std::string Take();
    size_t size() const { return bytes_.size(); }

   private:
    const int entries_per_restart_;
    std::string bytes_;
    std::string last_key_;
    std::vector<uint32_t> restarts_;
    int entries_ = 0;  // Since the last restart.
  };

  // Writes the block with its trailer; `handle` is where it lies.
  absl::Status Write(Block* block, std::string* handle);
  absl::Status FinishBlock();

  NewFile* const file_;
  Block block_{16};
  Block index_{1};
  std::string last_key_;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_SORTED_TABLE_H_
