#ifndef PARAMD_CHECKPOINT_KEYED_AGES_H_
#define PARAMD_CHECKPOINT_KEYED_AGES_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"

#include "checkpoint/checkpoint_reader.h"

namespace paramd {

// How many rows of a keyed variable have a key, by how many pushes to their
// block came after the last one that named them: fewer than 10, 100, 1,000,
// 10,000, or more.
struct KeyedAges {
  std::array<uint64_t, 5> rows = {};

  // A row that push `used` to its block named last, of `applied` to it; with a
  // `used` of 0 it has no key and does not count.
  void Add(uint64_t used, uint64_t applied);

  uint64_t all() const;
};

// Reads when each row was last used, 8 bytes a row, 4 MiB at a time. What
// CheckpointReader::Read fails with. REQUIRES: the variable is keyed.
absl::StatusOr<KeyedAges> AgesOf(const SliceIndex::Entry& entry,
                                 CheckpointReader* reader);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_KEYED_AGES_H_
