#ifndef PARAMD_COMPUTE_MODEL_SWAP_FILE_H_
#define PARAMD_COMPUTE_MODEL_SWAP_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace paramd {

// Where layers put what they keep from the forward to the backward pass of one
// batch, instead of in memory: a file without a name (tensor/unnamed_file). The
// kernel writes it to the disk while the pass goes on, and may keep pages of it
// that nobody else needs.
//
// What is read is what was written: each piece has a checksum, for the kernel
// forgets a page that it could not write, and would give zeros. After the first
// error nothing is written or read any more, and status() says why.
//
// Not thread-safe: of the thread of its layers.
class SwapFile {
 public:
  // Makes the file at the first call of Reserve or Write.
  explicit SwapFile(std::string directory) : directory_(std::move(directory)) {}
  // For tests, over a file that it then owns.
  SwapFile(int file, std::string directory)
      : directory_(std::move(directory)), file_(file) {}
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  // Takes so much room on the disk, whatever others write there. Errors are
  // those of Write.
  const absl::Status& Reserve(uint64_t bytes);

  // Writes what a layer keeps, in place of what it wrote before. Sets status():
  // FAILED_PRECONDITION where no file can be made in the directory or its file
  // system reserves no room, RESOURCE_EXHAUSTED if the disk has none, DATA_LOSS
  // if it failed.
  void Write(const void* layer, absl::Span<const std::byte> bytes);
  // Reads what the layer wrote last, and has the kernel read ahead what was
  // written before that. Sets status(): DATA_LOSS, and bytes of no use, if it
  // is not there any more. REQUIRES: the layer wrote as many bytes.
  void Read(const void* layer, absl::Span<std::byte> bytes);

  const absl::Status& status() const { return status_; }

 private:
  struct Piece {
    uint64_t offset = 0;
    uint64_t room = 0;
    uint64_t bytes = 0;
    uint32_t checksum = 0;
    // Written right before it in the same forward pass.
    const void* before = nullptr;
  };

  // Of the layer, with room for so many bytes; null after an error.
  Piece* RoomFor(const void* layer, uint64_t bytes);
  void Fail(absl::Status status) { status_ = std::move(status); }

  const std::string directory_;
  int file_ = -1;
  uint64_t used_ = 0;      // Of the file, from its beginning on.
  uint64_t reserved_ = 0;  // Likewise: what the disk has given.
  absl::flat_hash_map<const void*, Piece> pieces_;
  const void* last_ = nullptr;  // Who wrote last in this forward pass.
  absl::Status status_;
};

// Seconds that a byte takes to the disk of this directory and back, measured on
// 16 MiB in a file without a name. The errors of SwapFile::Write.
absl::StatusOr<double> MeasureSwap(const std::string& directory);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_SWAP_FILE_H_
