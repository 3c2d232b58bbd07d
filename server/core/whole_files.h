#ifndef PARAMD_SERVER_CORE_WHOLE_FILES_H_
#define PARAMD_SERVER_CORE_WHOLE_FILES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/types.pb.h"
#include "server/core/slice.h"
#include "server/core/snapshot_fork.h"

namespace paramd {

// Which numbers are in the files with all blocks that this server has written,
// so that a later file may leave these out.
//
// It knows two files at most: the newest, which may not be committed yet, and
// the one that later files refer to at present, which is committed.
//
// Invariant: what it calls unchanged has the same bits in that file. It knows
// that from Block::changed, so from this process's memory alone, and forgets it
// with the content.
//
// Not thread-safe: lives inside a ShardContent, whose slices outlive it.
class WholeFiles {
 public:
  // All blocks of `slices` are written, as of snapshot `number`. REQUIRES: the
  // fork is sealed for it.
  void Add(const v1::SnapshotNumber& number, const SnapshotFork& fork,
           const std::vector<Slice*>& slices);

  // Files refer to that of snapshot `base` from now on; zero: to none. False if
  // it is not known: then they refer to none.
  bool Use(const v1::SnapshotNumber& base);
  // Whether the file in use has the numbers of this block, which is one of the
  // slice as it is in a later snapshot. REQUIRES: Use said true.
  bool IsUnchanged(const Slice& slice, int block, const Block& frozen) const;

 private:
  struct Life {
    uint64_t life;
    uint64_t changed;
  };
  struct File {
    v1::SnapshotNumber number;
    absl::flat_hash_map<const Slice*, std::vector<Life>> blocks;
  };

  absl::optional<File> newest_;
  absl::optional<File> base_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_WHOLE_FILES_H_
