#ifndef PARAMD_NET_SHARED_MAPPING_H_
#define PARAMD_NET_SHARED_MAPPING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace paramd {

// Memory without a file that two processes of one machine see, in the place
// where this one sees it: words of control, then two arenas, one that the
// client writes and one that the server writes. An arena consists of units, and
// a word belongs to each.
//
//     client's words │ server's words │ client's arena │ server's arena
//       4 B a unit       4 B a unit      1,024 units      1,024 units
//
// Invariant: all of it is there for as long as this lives; the memory is sealed
// against shrinking and growing, so no access ends the process. What lies in it
// may be changed by the other process at any time, words included.
//
// Only pages that were touched take memory. Thread-compatible; the words are
// atomic.
class SharedMapping {
 public:
  enum class Arena { kClient, kServer };
  static constexpr size_t kUnitBytes = size_t{16} << 10;
  static constexpr size_t kUnits = 1024;
  static constexpr size_t kArenaBytes = kUnitBytes * kUnits;

  struct Made;
  // New memory, all zeros and sealed. kResourceExhausted if the system gives
  // none.
  static absl::StatusOr<Made> Make();
  // The memory of another process. kInvalidArgument, naming what is wrong, if
  // `fd` is not ordinary memory, can shrink or grow, has another size, or
  // cannot be mapped. `fd` stays the caller's.
  static absl::StatusOr<std::shared_ptr<SharedMapping>> Open(int fd);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  absl::Span<std::byte> arena(Arena arena) const;
  // REQUIRES: unit < kUnits.
  std::atomic<uint32_t>& word(Arena arena, size_t unit) const;

 private:
  static constexpr size_t kWordBytes = sizeof(std::atomic<uint32_t>) * kUnits;
  static constexpr size_t kBytes = 2 * (kWordBytes + kArenaBytes);

  explicit SharedMapping(std::byte* begin) : begin_(begin) {}
  static absl::StatusOr<std::shared_ptr<SharedMapping>> Map(int fd);

  std::byte* const begin_;
};

struct SharedMapping::Made {
  // Shared by its two users: whoever puts and takes, and each Buffer in it.
  std::shared_ptr<SharedMapping> mapping;
  int fd;  // The caller closes it.
};

}  // namespace paramd

#endif  // PARAMD_NET_SHARED_MAPPING_H_
