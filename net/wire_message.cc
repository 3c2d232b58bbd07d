#include "net/wire_message.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "grpc/slice.h"
#include "grpcpp/support/slice.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "net/hand_over.h"

namespace paramd {
namespace {

constexpr uint32_t kPayloadTag = kPayloadField << 3 | 2;
constexpr uint32_t kSharedTag = kSharedField << 3 | 2;
constexpr size_t kMostVarintBytes = 10;
// A head from this size on has many parts.
constexpr size_t kLeastArenaBytes = 256;

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

uint8_t* WriteVarint(uint64_t value, uint8_t* out) {
  for (; value >= 0x80; value >>= 7)
    *out++ = static_cast<uint8_t>(value) | 0x80;
  *out++ = static_cast<uint8_t>(value);
  return out;
}

// What one message sends by reference, kept until gRPC has done with all of it:
// with a count for each, a message of many small pieces spends its time on
// their allocations.
class SentPieces {
 public:
  grpc::Slice Add(const Buffer& piece) {
    auto* const bytes = const_cast<uint8_t*>(
        reinterpret_cast<const uint8_t*>(piece.bytes().data()));
    if (kept_ != nullptr) {
      kept_->push_back(piece);
      grpc_slice next = first_;  // Under the same count.
      next.data.refcounted.bytes = bytes;
      next.data.refcounted.length = piece.size();
      return grpc::Slice(next, grpc::Slice::ADD_REF);
    }
    kept_ = new std::vector<Buffer>{piece};
    first_ = grpc_slice_new_with_user_data(bytes, piece.size(), &Drop, kept_);
    return grpc::Slice(first_, grpc::Slice::STEAL_REF);
  }
  // After the last one: now the slices may go to gRPC.
  void HandOverAll() {
    if (kept_ != nullptr) HandOver(kept_);
  }

 private:
  // Runs on any gRPC thread, under its locks: decrements and deletes.
  static void Drop(void* kept) {
    TakeOver(kept);
    delete static_cast<std::vector<Buffer>*>(kept);
  }

  std::vector<Buffer>* kept_ = nullptr;  // Of the slices.
  grpc_slice first_;
};

// Memory that gRPC has received into. With its last count it goes back to
// gRPC, which may then look for more that it could have back (with a memory
// limit, when little is left of it). For that gRPC 1.51 needs its ExecCtx on
// the thread, which grpc_slice_unref does not make but grpc_byte_buffer_destroy
// does: without one it reads from address 8. So a byte buffer has the last
// count.
struct ReceivedSlice {
  explicit ReceivedSlice(const grpc::Slice& received)
      : owner(&received, 1), slice(received) {}

  grpc::ByteBuffer owner;  // Destroyed last.
  grpc::Slice slice;
};

void DropSlice(void* slice) { delete static_cast<ReceivedSlice*>(slice); }

// The part of `slice` from `offset` on.
Buffer AsBuffer(const grpc::Slice& slice, size_t offset) {
  auto* held = new ReceivedSlice(slice);
  return Buffer::Foreign(
      absl::MakeConstSpan(
          reinterpret_cast<const std::byte*>(held->slice.begin()) + offset,
          held->slice.size() - offset),
      &DropSlice, held);
}

// Walks over bytes that are cut into slices.
class SliceCursor {
 public:
  explicit SliceCursor(const std::vector<grpc::Slice>& slices)
      : slices_(slices) {
    for (const grpc::Slice& slice : slices) remaining_ += slice.size();
  }

  size_t position() const { return position_; }
  size_t remaining() const { return remaining_; }

  // False, somewhere, if fewer bytes remain.
  bool Skip(uint64_t length) {
    if (length > remaining_) return false;
    Advance(length);
    return true;
  }

  // False if the bytes end or the number is longer than 64 bits.
  bool ReadVarint(uint64_t* value) {
    if (offset_ + 1 < SizeHere()) {  // Most are of one byte.
      *value = slices_[index_].begin()[offset_];
      if (*value < 0x80) {
        ++offset_;
        ++position_;
        --remaining_;
        return true;
      }
    }
    *value = 0;
    for (size_t i = 0; i < kMostVarintBytes; ++i) {
      if (remaining_ == 0) return false;
      Advance(0);
      const uint8_t byte = slices_[index_].begin()[offset_];
      Advance(1);
      if (i + 1 == kMostVarintBytes && byte > 1) return false;
      *value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  // What is left, as references.
  BufferChain Rest() {
    BufferChain rest;
    if (remaining_ == 0) return rest;
    Advance(0);
    for (; index_ < slices_.size(); ++index_, offset_ = 0) {
      if (slices_[index_].size() == offset_) continue;
      rest.push_back(AsBuffer(slices_[index_], offset_));
    }
    return rest;
  }

 private:
  size_t SizeHere() const {
    return index_ < slices_.size() ? slices_[index_].size() : 0;
  }
  // Leaves index_ at a slice that has a byte at offset_, if any remains.
  void Advance(size_t length) {
    position_ += length;
    remaining_ -= length;
    offset_ += length;
    while (index_ < slices_.size() && offset_ >= slices_[index_].size()) {
      offset_ -= slices_[index_].size();
      ++index_;
    }
  }

  const std::vector<grpc::Slice>& slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
  size_t position_ = 0;
  size_t remaining_ = 0;
};

absl::Status Malformed(const google::protobuf::Message& prototype,
                       absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "malformed ", prototype.GetDescriptor()->name(), ": ", what));
}

// Skips the value of a top-level field.
bool SkipField(uint64_t tag, SliceCursor* cursor) {
  uint64_t value;
  switch (tag & 7) {
    case 0:
      return cursor->ReadVarint(&value);
    case 1:
      return cursor->Skip(8);
    case 2:
      return cursor->ReadVarint(&value) && cursor->Skip(value);
    case 5:
      return cursor->Skip(4);
    default:
      return false;  // Groups, which proto3 does not have.
  }
}

// Moves to the first byte of the payload, or to the end; the length of the
// head.
absl::StatusOr<size_t> FindPayload(const google::protobuf::Message& prototype,
                                   SliceCursor* cursor) {
  while (cursor->remaining() > 0) {
    const size_t head_bytes = cursor->position();
    uint64_t tag;
    if (!cursor->ReadVarint(&tag) || tag > UINT32_MAX || tag >> 3 == 0) {
      return Malformed(prototype,
                       absl::StrCat("no field at byte ", head_bytes));
    }
    if (tag != kPayloadTag) {
      if (SkipField(tag, cursor)) continue;
      return Malformed(prototype, absl::StrCat("field ", tag >> 3, " at byte ",
                                               head_bytes, " is cut short"));
    }
    uint64_t length;
    if (!cursor->ReadVarint(&length)) {
      return Malformed(prototype, "the payload has no length");
    }
    if (length != cursor->remaining()) {
      return Malformed(prototype,
                       absl::StrCat("the payload has ", length, " bytes; ",
                                    cursor->remaining(), " follow"));
    }
    return head_bytes;
  }
  return cursor->position();
}

// Parses the first `length` bytes.
bool ParseHead(const std::vector<grpc::Slice>& slices, size_t length,
               google::protobuf::Message* head) {
  if (!slices.empty() && slices[0].size() >= length) {
    return head->ParseFromArray(slices[0].begin(), static_cast<int>(length));
  }
  std::string joined;
  joined.reserve(length);
  for (const grpc::Slice& slice : slices) {
    const size_t part = std::min(slice.size(), length - joined.size());
    joined.append(reinterpret_cast<const char*>(slice.begin()), part);
    if (joined.size() == length) break;
  }
  return head->ParseFromString(joined);
}

}  // namespace

bool HasPayloadField(const google::protobuf::Descriptor* type) {
  return type->FindFieldByNumber(kPayloadField) != nullptr;
}

bool HasSharedField(const google::protobuf::Descriptor* type) {
  return type->FindFieldByNumber(kSharedField) != nullptr;
}

grpc::ByteBuffer EncodeMessage(const google::protobuf::Message& head,
                               const BufferChain& payload,
                               const v1::SharedPayload* shared) {
  const size_t payload_bytes = ChainSize(payload);
  CHECK(payload_bytes == 0 || HasPayloadField(head.GetDescriptor()),
        "only messages with a payload field carry one");
  CHECK(shared == nullptr || HasSharedField(head.GetDescriptor()),
        "only messages with a field for it speak of shared memory");
  size_t prefix_bytes = head.ByteSizeLong();
  if (shared != nullptr) {
    const size_t shared_bytes = shared->ByteSizeLong();
    prefix_bytes +=
        VarintSize(kSharedTag) + VarintSize(shared_bytes) + shared_bytes;
  }
  if (payload_bytes > 0) {
    prefix_bytes += VarintSize(kPayloadTag) + VarintSize(payload_bytes);
  }
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + payload.size());
  SentPieces pieces;
  size_t next = 0;
  while (slices.empty() || next < payload.size()) {
    const bool first = slices.empty();
    if (!first && payload[next].size() >= kByReferenceBytes) {
      slices.push_back(pieces.Add(payload[next++]));
      continue;
    }
    // A run of small pieces, the first one after the head.
    size_t end = next;
    size_t bytes = first ? prefix_bytes : 0;
    for (; end < payload.size() && payload[end].size() < kByReferenceBytes;
         ++end) {
      bytes += payload[end].size();
    }
    grpc::Slice run(bytes);
    auto* out = const_cast<uint8_t*>(run.begin());
    if (first) {
      out = head.SerializeWithCachedSizesToArray(out);
      if (shared != nullptr) {
        out = WriteVarint(kSharedTag, out);
        out = WriteVarint(static_cast<size_t>(shared->GetCachedSize()), out);
        out = shared->SerializeWithCachedSizesToArray(out);
      }
      if (payload_bytes > 0) {
        out = WriteVarint(payload_bytes, WriteVarint(kPayloadTag, out));
      }
    }
    for (; next < end; ++next) {
      if (payload[next].empty()) continue;
      std::memcpy(out, payload[next].bytes().data(), payload[next].size());
      out += payload[next].size();
    }
    slices.push_back(std::move(run));
  }
  pieces.HandOverAll();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<WireMessage> DecodeMessage(
    const grpc::ByteBuffer& bytes, const google::protobuf::Message& prototype) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Valid() || !bytes.Dump(&slices).ok()) {
    return Malformed(prototype, "no bytes, or compressed ones");
  }
  SliceCursor cursor(slices);
  size_t head_bytes = cursor.remaining();
  const bool may_have_payload = HasPayloadField(prototype.GetDescriptor());
  if (may_have_payload) {
    ASSIGN_OR_RETURN(head_bytes, FindPayload(prototype, &cursor));
  }
  if (head_bytes > kMostHeadBytes) {
    return Malformed(prototype,
                     absl::StrCat("the head has ", head_bytes,
                                  " bytes; the limit is ", kMostHeadBytes));
  }
  WireMessage message;
  message.head = head_bytes < kLeastArenaBytes ? Head(prototype.New())
                                               : MakeHeadLike(prototype);
  if (!ParseHead(slices, head_bytes, message.head.get())) {
    return Malformed(prototype, "the head is not of this type");
  }
  if (may_have_payload) message.payload = cursor.Rest();
  return message;
}

namespace {

// The longest `shared` of one piece, with its tag.
constexpr size_t kMostSharedBytes = 64;

OutgoingMessage InMessage(const google::protobuf::Message& head,
                          const BufferChain& payload,
                          const v1::SharedPayload* shared) {
  OutgoingMessage message;
  message.bytes = EncodeMessage(head, payload, shared);
  message.size = message.bytes.Length();
  return message;
}

// What is put must be sent: nobody else frees it.
bool Put(const Method& method, const google::protobuf::Message& head,
         const BufferChain& payload, SharedMemory* memory,
         v1::SharedPayload* shared) {
  const size_t bytes = ChainSize(payload);
  if (bytes < SharedMemory::kLeastBytes) return false;
  return head.ByteSizeLong() + bytes + kMostSharedBytes <=
             method.most_bytes() &&
         memory->Put(payload, shared);
}

OutgoingMessage Encode(const Method& method,
                       const google::protobuf::Message& head,
                       const BufferChain& payload, SharedMemory* memory,
                       bool names_memory) {
  if (memory == nullptr || !HasSharedField(head.GetDescriptor())) {
    return InMessage(head, payload, nullptr);
  }
  v1::SharedPayload shared;
  if (Put(method, head, payload, memory, &shared)) {
    OutgoingMessage message = InMessage(head, {}, &shared);
    message.size += ChainSize(payload);
    return message;
  }
  if (!names_memory) return InMessage(head, payload, nullptr);
  shared.set_memory(memory->id());
  return InMessage(head, payload, &shared);
}

}  // namespace

OutgoingMessage EncodeRequest(const Method& method,
                              const google::protobuf::Message& head,
                              const BufferChain& payload,
                              SharedMemory* memory) {
  return Encode(method, head, payload, memory, /*names_memory=*/true);
}

OutgoingMessage EncodeReply(const Method& method,
                            const google::protobuf::Message& head,
                            const BufferChain& payload, SharedMemory* memory) {
  return Encode(method, head, payload, memory, /*names_memory=*/false);
}

absl::optional<v1::SharedPayload> TakeShared(WireMessage* message) {
  google::protobuf::Message& head = *message->head;
  const auto* const field =
      head.GetDescriptor()->FindFieldByNumber(kSharedField);
  const auto* const reflection = head.GetReflection();
  if (field == nullptr || !reflection->HasField(head, field)) {
    return absl::nullopt;
  }
  auto shared = std::move(*static_cast<v1::SharedPayload*>(
      reflection->MutableMessage(&head, field)));
  reflection->ClearField(&head, field);
  return shared;
}

absl::Status TakeSharedPayload(const v1::SharedPayload& shared,
                               SharedMemory* memory, WireMessage* message) {
  if (shared.pieces().empty()) return absl::OkStatus();
  if (!message->payload.empty()) {
    return Malformed(*message->head, "a payload, and another in shared memory");
  }
  if (memory == nullptr) {
    return absl::UnavailableError("shared memory that is not known any more");
  }
  auto payload = memory->Take(shared);
  if (!payload.ok()) {
    return Malformed(*message->head, payload.status().message());
  }
  message->payload = *std::move(payload);
  return absl::OkStatus();
}

}  // namespace paramd
