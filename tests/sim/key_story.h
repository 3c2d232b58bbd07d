#ifndef PARAMD_TESTS_SIM_KEY_STORY_H_
#define PARAMD_TESTS_SIM_KEY_STORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"
#include "server/core/key_sketch.h"

namespace paramd {

// Which keys of a bucket have rows, by the pushes to it in their order, where
// some are admitted late or expire: as decision 66 says it, without an index.
//
// A value. Not thread-safe.
class KeyStory {
 public:
  // What a push did, by the places of keys.
  struct Named {
    std::vector<size_t> lost;     // To others, or because nothing named them.
    std::vector<size_t> created;  // After that.
    std::vector<size_t> kept;     // Named, with a row from before.
    uint64_t evicted = 0;
    uint64_t expired = 0;
    uint64_t ignored = 0;
    uint64_t not_admitted = 0;
  };

  // Of a bucket with so many rows, all of them without a key.
  KeyStory(const v1::Variable& variable, size_t rows);

  // Its keys are those of `trained`, which another job begins with: used by the
  // first push, and those unused for longest there in the first rows.
  void BeginWith(const KeyStory& trained);

  // The push that is the `now`th to the bucket names the keys in places
  // [first, first + mixed.size()).
  Named Push(absl::Span<const uint64_t> mixed, size_t first, uint64_t now);

 private:
  struct Row {
    absl::optional<size_t> key;  // Its place.
    uint64_t used = 0;
  };

  void Expire(uint64_t now, Named* named);
  // The row of a key, or for it: null if none is left.
  Row* RowOf(size_t key);
  Row* RowFor(uint64_t now, Named* named);

  bool ignores_;
  uint32_t admit_after_;
  uint64_t expire_after_;
  std::vector<Row> rows_;
  KeySketch sketch_;
  std::vector<uint64_t> counters_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_KEY_STORY_H_
