#ifndef PARAMD_CHECKPOINT_RANGE_SUM_H_
#define PARAMD_CHECKPOINT_RANGE_SUM_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/file.h"

namespace paramd {

// The checksum of a file that is read in parts, in whatever order, so that
// nothing is read once more for it.
//
// Bound: one entry for each run of parts that follow one another.
//
// Not thread-safe.
class RangeSum {
 public:
  // These bytes of the file begin at `begin`. A part that overlaps one that is
  // known is left out.
  void Add(uint64_t begin, absl::Span<const std::byte> bytes);

  // The whole file's size and checksum, for which what has not been added is
  // read now, 4 MiB at a time; after each piece `progress`, unless null, is
  // told its bytes. What reading failed with.
  absl::StatusOr<FileSum> Finish(
      const ReadableFile& file,
      const std::function<void(uint64_t bytes)>& progress = nullptr);

  // Of all that was added.
  uint64_t bytes() const { return bytes_; }

 private:
  struct Range {
    uint64_t end;
    uint32_t crc32c;
  };

  std::map<uint64_t, Range> ranges_;  // By where they begin; apart.
  uint64_t bytes_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_RANGE_SUM_H_
