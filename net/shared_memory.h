#ifndef PARAMD_NET_SHARED_MEMORY_H_
#define PARAMD_NET_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "net/shared_mapping.h"
#include "proto/paramd/v1/data.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// One process's end of memory that it shares with one peer: what this end puts
// into its own arena the peer takes out of it, and the other way round.
//
//   v1::SharedPayload shared;
//   if (memory->Put(payload, &shared)) …  // `shared` travels, not the payload.
//
//   // At the peer:
//   absl::StatusOr<BufferChain> payload = memory->Take(shared);
//
// Pieces move on through the arena: each begins after the one before it and,
// beyond kWalkUnits, the next one at the beginning again. What a receiver has
// just read is in its CPU's cache, and writing there costs a sender three times
// as much as writing where nobody has been for a while. If pieces moved through
// all of the arena, none of it would be in any cache.
//
// A payload lies in a run of units, its piece; the word of the piece's first
// unit says whose it is:
//
//            Put, by the sender                   ┌────────────┐
//     FREE ─────────────────────► HELD ── Take ──►│ Buffers of │
//      ▲                                          │the receiver│
//      └───────── the last of them is dropped ────┴────────────┘
//
// Invariant: the sender writes to a piece only after it has seen the word FREE,
// and only the receiver makes it so, never the end of a call: whoever timed out
// does not know whether the peer still reads. A message comes once at most, so
// a piece has one set of Buffers; one that is sent again is put anew.
//
// Lost pieces: a message that never comes, or that its receiver refuses unread,
// leaves its piece HELD for good. That happens only to a call that ends without
// its peer's answer; the client counts those (CountLoss), and has new memory in
// place of one that is worn.
//
// Memory order: the message itself orders a payload's bytes before their
// reading. For the way back the receiver stores FREE with release after its
// last read (Buffer's references are dropped with acquire and release), and the
// sender writes only after a load with acquire that saw it.
//
// Trust: the sender keeps its own record of pieces and the receiver checks
// every offset and length; of what lies in the memory only FREE is believed, so
// a hostile peer spoils no payloads but its own.
//
// Thread-compatible; Buffers from Take may be dropped on any thread, and keep
// the mapping.
class SharedMemory {
 public:
  enum class End { kClient, kServer };

  // Smaller payloads are cheaper in the message.
  static constexpr size_t kLeastBytes = size_t{16} << 10;

  SharedMemory(End end, uint64_t id, std::shared_ptr<SharedMapping> mapping);

  uint64_t id() const { return id_; }
  std::weak_ptr<const SharedMapping> mapping() const { return mapping_; }

  // Copies `payload` into the next free piece that holds it and says where.
  // False, with `shared` unchanged, if it is below kLeastBytes or there is no
  // such piece: then it travels in the message.
  bool Put(const BufferChain& payload, v1::SharedPayload* shared);

  // The payload that the peer has put, in the memory itself; empty if there are
  // no pieces. kInvalidArgument, naming what is wrong, if `shared` is not of
  // this memory, or a piece does not lie in the arena, begin at a unit or hold
  // anything, or all of them are more than an arena. Pieces named before the
  // wrong one are freed.
  absl::StatusOr<BufferChain> Take(const v1::SharedPayload& shared);

  // A call that used the memory ended without its peer's answer.
  void CountLoss() { ++losses_; }
  bool worn() const { return losses_ >= kMostLosses; }

  // Bytes of payloads, and payloads that found no piece.
  uint64_t put_bytes() const { return put_bytes_; }
  uint64_t taken_bytes() const { return taken_bytes_; }
  uint64_t without_room() const { return without_room_; }

 private:
  static constexpr int kMostLosses = 16;

  // Above the caches that belong to one CPU alone, which have 1 or 2 MiB.
  static constexpr size_t kWalkUnits =
      (size_t{2} << 20) / SharedMapping::kUnitBytes;

  // The first unit of a piece that is held from now on; nullopt: no room.
  absl::optional<size_t> Reserve(size_t units);
  // The first run of so many units at or after `from` that is free.
  absl::optional<size_t> FirstGap(size_t from, size_t units) const;
  absl::StatusOr<Buffer> TakePiece(const v1::SharedPayload::Piece& piece);

  const uint64_t id_;
  const SharedMapping::Arena written_;
  const SharedMapping::Arena read_;
  // Shared with each Buffer in it.
  const std::shared_ptr<SharedMapping> mapping_;
  // First unit and units of each piece that was put and not seen free since.
  std::map<size_t, size_t> held_;
  size_t next_ = 0;  // Where the next piece is looked for first.
  int losses_ = 0;
  uint64_t put_bytes_ = 0;
  uint64_t taken_bytes_ = 0;
  uint64_t without_room_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_NET_SHARED_MEMORY_H_
