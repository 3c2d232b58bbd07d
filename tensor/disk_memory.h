#ifndef PARAMD_TENSOR_DISK_MEMORY_H_
#define PARAMD_TENSOR_DISK_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace paramd {

// Bytes of a piece of memory that lie on a disk: whole pages.
struct DiskRange {
  size_t begin;
  size_t end;
};
using DiskRanges = std::vector<DiskRange>;

// The whole pages in [begin, end), if there are any.
void AddPages(size_t begin, size_t end, DiskRanges* ranges);
uint64_t BytesOf(const DiskRanges& ranges);

// Memory that in part is a file's: who has the addresses reads and writes both
// parts alike. The kernel reads pages of the file when they are touched, keeps
// them as long as it likes, and writes those that changed. The file has no
// name: it goes with the process, however that ends.
//
// An access to a page that the disk no longer gives ends the process with exit
// code 138, and a sentence on stderr.
//
// Thread safety: belongs to one thread; what Map gave may be dropped on any.
class DiskMemory : public std::enable_shared_from_this<DiskMemory> {
 public:
  // The file is made in `directory`. kFailedPrecondition, with a sentence,
  // where none can be.
  static absl::StatusOr<std::shared_ptr<DiskMemory>> Create(
      const std::string& directory);
  // A file of memory, for tests.
  static std::shared_ptr<DiskMemory> CreateInMemory();

  ~DiskMemory();
  DiskMemory(const DiskMemory&) = delete;
  DiskMemory& operator=(const DiskMemory&) = delete;

  // Takes so much of the disk that `bytes` can be mapped at a time, whatever
  // others write there, by so many mappings; what was taken before is part of
  // it. kResourceExhausted, with a sentence, if it has less room, or the kernel
  // allows this process fewer mappings.
  absl::Status Reserve(uint64_t bytes, uint64_t mappings);

  class Mapping {
   public:
    Mapping(std::shared_ptr<DiskMemory> disk, absl::Span<std::byte> bytes,
            uint64_t on_disk)
        : disk_(std::move(disk)), bytes_(bytes), on_disk_(on_disk) {}
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    absl::Span<std::byte> bytes() const { return bytes_; }
    uint64_t memory_bytes() const { return bytes_.size() - on_disk_; }

   private:
    const std::shared_ptr<DiskMemory> disk_;
    const absl::Span<std::byte> bytes_;
    const uint64_t on_disk_;
  };
  // Whether touching memory often had to wait for a disk lately, so that it is
  // worth telling the kernel before what will be touched.
  bool WaitsLately();
  // Has the kernel read all of this, in any order and at once, if it lies on a
  // disk.
  static void ReadAhead(absl::Span<const absl::Span<const std::byte>> pieces);

  // `size` bytes that begin with a page, those of `ranges` in the file; all are
  // zero. Null if the system gives no addresses, or the disk no room.
  // REQUIRES: ranges ascend and lie inside.
  std::unique_ptr<Mapping> Map(size_t size, const DiskRanges& ranges);
  // The same with those bytes in the file that `original` has, which takes no
  // room: neither may be written there before it is Separate. Null also if
  // nothing was mapped at `original` with such ranges.
  std::unique_ptr<Mapping> MapShared(const std::byte* original, size_t size,
                                     const DiskRanges& ranges);
  // From now on what was mapped at `begin` with these ranges has its bytes in
  // the file for itself: it gets copies of those that it shares. False, with no
  // change, if the disk has no room for them.
  bool Separate(std::byte* begin, const DiskRanges& ranges);

 private:
  // Of the file.
  struct Extent {
    uint64_t offset;
    uint64_t bytes;
  };
  using ExtentRef = std::shared_ptr<const Extent>;
  // What was mapped there is no longer; drops come from other threads.
  struct Dropped {
    const std::byte* begin;
    Dropped* next;
  };

  DiskMemory(int file, std::string directory)
      : file_(file), directory_(std::move(directory)) {}
  std::unique_ptr<Mapping> MapTo(ExtentRef extent, size_t size,
                                 const DiskRanges& ranges);
  bool MapRanges(std::byte* begin, const DiskRanges& ranges,
                 uint64_t offset) const;
  bool Write(const std::byte* begin, const DiskRanges& ranges,
             uint64_t offset) const;
  void Drop(const std::byte* begin);
  void TakeBack();
  // To be used again, if nothing is mapped to it.
  void Free(ExtentRef extent);
  // Null if there is none. `clear`: of zeros.
  ExtentRef FindRoom(uint64_t bytes, bool clear);

  const int file_;
  const std::string directory_;
  uint64_t waits_ = 0;     // Of this thread, as of the last question.
  int ahead_ = 0;          // Answers that are yes.
  uint64_t used_ = 0;      // Of the file, from its beginning on.
  uint64_t reserved_ = 0;  // Likewise: what the disk has given.
  uint64_t mappings_ = 0;  // Of those that the process may have.
  absl::flat_hash_map<const std::byte*, ExtentRef> mapped_;
  std::map<uint64_t, std::vector<uint64_t>> free_extents_;  // By size.
  std::atomic<Dropped*> dropped_ = nullptr;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_DISK_MEMORY_H_
