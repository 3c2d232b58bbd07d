#ifndef PARAMD_SERVER_CORE_SHARD_FILLER_H_
#define PARAMD_SERVER_CORE_SHARD_FILLER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "server/core/shard_content.h"
#include "tensor/buffer.h"
#include "tensor/message.h"

namespace paramd {

// Gives the slices of a server their first content, a bounded piece of work at
// a time: either initial values, drawn by a counter-based generator keyed by
// (seed, variable, element) and therefore the same for any number of servers,
// in part out of something that was trained before; or what a checkpoint holds.
//
// What is read comes in windows, runs of whole slices in order. While one is
// filled in, the next are read; or, in place, they are read into memory that
// becomes their blocks', touched before by this thread so that the one that
// reads need not wait for the kernel to clear it.
//
// Bound: three windows, each of window_bytes or of one slice; in place, that is
// memory of the content and no other.
//
// Not thread-safe: belongs to a Shard. The content outlives it.
class ShardFiller {
 public:
  struct Options {
    ShardContent* content = nullptr;
    RandomStream* lives = nullptr;  // Yields the random lives of the slices.
    uint64_t seed = 0;
    uint64_t window_bytes = 16 << 20;
    // A checkpoint is read by somebody who gets the blocks' memory with the
    // request.
    bool in_place = false;
  };
  // A checkpoint, and of which run this server is. Records of pushes are taken
  // over only from a checkpoint of that run: the sessions of another one mean
  // nothing here.
  struct Checkpoint {
    std::string directory;
    std::string run_id;
    // The share of the files that this server checks.
    v1::ReadSlices::Share check;
  };

  // Asks for nothing.
  explicit ShardFiller(const Options& options);
  // Those that are found are taken, the others drawn.
  ShardFiller(const Options& options, const v1::WarmStartConfig& warm_start);
  ShardFiller(const Options& options, const Checkpoint& checkpoint);
  ShardFiller(const ShardFiller&) = delete;
  ShardFiller& operator=(const ShardFiller&) = delete;

  struct Read {
    std::unique_ptr<google::protobuf::Message> head;
    // In place: what is read goes here, as BlocksTarget in checkpoint/ has it.
    BufferChain memory;
  };
  // Work that is to be started under the number `io`, without a head if there
  // is none now.
  Read NextRead(IoId io);
  // Whether what `io` ends with is to be handed to Take.
  bool Wants(IoId io) const;
  // What was read; in place also if it lies elsewhere. kDataLoss if it does not
  // have the slices or the bytes that were asked for. REQUIRES:
  // Wants(result.io), it ended well.
  absl::Status Take(const IoResult& result);

  // Whether Step has something to do now.
  bool CanStep() const;
  // Fills about a block's worth, or makes so much memory ready to be read into.
  // REQUIRES: CanStep().
  void Step();
  // Nothing more is read until something is filled in.
  bool full() const { return windows_.size() == kMostWindows; }
  // Everything is filled, and all that was asked for has come.
  bool done() const;

  // Of values and slots that are filled.
  uint64_t filled_bytes() const { return filled_bytes_; }

 private:
  // One is filled in, one is read, and one lies between them: of two, reading
  // stood still whenever filling in had taken longer, and the other way round
  // (500 MB took a tenth to a third longer).
  static constexpr size_t kMostWindows = 3;

  enum class Source { kInitial, kWarmStart, kCheckpoint };
  // Slices [first, end) of those owned.
  struct Window {
    IoId io;
    size_t first;
    size_t end;
    bool there = false;
    // Where the memory that went with the request begins, buffer by buffer.
    std::vector<const std::byte*> asked_into;
    // The payload lies there: it is the blocks' content.
    bool in_place = false;
    size_t adopted = 0;  // Buffers of it.
    v1::ReadSlicesResult read;
    // Of a warm start, by slice: its Slice::initial_bytes are in the payload.
    std::vector<bool> found;
    BufferChain payload;
    absl::optional<ChainReader> reader;  // Of the payload, once it is there.
  };

  absl::Status TakeSlices(const v1::ReadSlicesResult& read, uint64_t payload,
                          Window* window) const;
  absl::Status TakeFound(const v1::ReadWarmStartResult& read, uint64_t payload,
                         Window* window) const;
  uint64_t NextLife();
  // Where the window that begins with this slice ends.
  size_t EndOfWindow(size_t first) const;
  // Whether memory of the next window is still to be made.
  bool CanPrepare() const;
  void PrepareBlock();
  // Takes what was read in place as the content of the slice.
  void AdoptSlice(Slice* slice);
  bool CanFill() const;
  void Fill();
  void BeginSlice(Slice* slice);
  // Whether the slice that is filled takes what was trained before.
  bool IsFound() const;
  void RestoreCounts(const v1::ReadSlicesResult::Got& got, Slice* slice);
  void FillPart(Slice* slice, int block, size_t part);
  // Whether it comes from what was read.
  bool IsRead(const Slice& slice, size_t part) const;
  static void FillWithZeros(const Slice& slice, int block, size_t part,
                            absl::Span<std::byte> out);
  void DropFilledWindow();
  size_t slices() const { return options_.content->owned().size(); }
  // Values and slots, as they are read.
  uint64_t BytesOf(size_t slice) const;

  const Options options_;
  // What is read lies as blocks have it.
  const bool in_place_;
  const Source source_;
  const Checkpoint checkpoint_;
  const v1::WarmStartConfig warm_start_;
  bool take_records_ = false;
  std::deque<Window> windows_;  // In order.
  size_t asked_ = 0;            // Slices.
  bool asked_all_ = false;
  // In place: the memory of the next window so far, and for which block the
  // next is.
  BufferChain prepared_;
  size_t window_end_ = 0;
  size_t prepare_slice_ = 0;
  int prepare_block_ = 0;
  // What is filled next.
  size_t slice_ = 0;
  size_t part_ = 0;
  int block_ = 0;
  uint64_t filled_bytes_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_FILLER_H_
