#ifndef PARAMD_TENSOR_DISK_MEMORY_H_
#define PARAMD_TENSOR_DISK_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

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
// them as long as it likes, and writes those that changed. The file has no name:
// it goes with the process, however that ends.
//
// An access to a page that the disk no longer gives ends the process with exit
// code 138, and a sentence on stderr.
//
// Thread safety: belongs to one thread; what Map gave may be dropped on any.
class DiskMemory : public std::enable_shared_from_this<DiskMemory> {
 public:
  // The file is made in `directory`. kFailedPrecondition, with a sentence, where
  // none can be.
  static absl::StatusOr<std::shared_ptr<DiskMemory>> Create(
      const std::string& directory);
  // A file of memory, for tests.
  static std::shared_ptr<DiskMemory> CreateInMemory();

  ~DiskMemory();
  DiskMemory(const DiskMemory&) = delete;
  DiskMemory& operator=(const DiskMemory&) = delete;

  // Takes so much of the disk that `bytes` can be mapped at a time, whatever
  // others write there, by so many mappings; what was taken before is part of it.
  // kResourceExhausted, with a sentence, if it has less room, or the kernel allows
  // this process fewer mappings.
  absl::Status Reserve(uint64_t bytes, uint64_t mappings);

  class Mapping {
   public:
    Mapping(std::shared_ptr<DiskMemory> disk, absl::Span<std::byte> bytes,
            uint64_t offset, uint64_t on_disk)
        : disk_(std::move(disk)),
          bytes_(bytes),
          offset_(offset),
          on_disk_(on_disk) {}
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    absl::Span<std::byte> bytes() const { return bytes_; }
    uint64_t memory_bytes() const { return bytes_.size() - on_disk_; }

   private:
    const std::shared_ptr<DiskMemory> disk_;
    const absl::Span<std::byte> bytes_;
    const uint64_t offset_;
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

 private:
  // Of the file, no longer mapped; drops come from other threads.
  struct Extent {
    uint64_t offset;
    uint64_t bytes;
    Extent* next;
  };

  DiskMemory(int file, std::string directory)
      : file_(file), directory_(std::move(directory)) {}
  void Release(uint64_t offset, uint64_t bytes);
  void TakeBack();
  // Of zeros, or kNowhere.
  uint64_t FindRoom(uint64_t bytes);

  const int file_;
  const std::string directory_;
  uint64_t waits_ = 0;     // Of this thread, as of the last question.
  int ahead_ = 0;          // Answers that are yes.
  uint64_t used_ = 0;      // Of the file, from its beginning on.
  uint64_t reserved_ = 0;  // Likewise: what the disk has given.
  uint64_t mappings_ = 0;  // Of those that the process may have.
  std::map<uint64_t, std::vector<uint64_t>> free_extents_;  // By size.
  std::atomic<Extent*> released_ = nullptr;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_DISK_MEMORY_H_
