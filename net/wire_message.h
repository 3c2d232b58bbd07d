#ifndef PARAMD_NET_WIRE_MESSAGE_H_
#define PARAMD_NET_WIRE_MESSAGE_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

#include "net/method_table.h"
#include "net/shared_memory.h"
#include "proto/paramd/v1/data.pb.h"
#include "tensor/buffer.h"
#include "tensor/message.h"

namespace paramd {

// A message as it travels: an ordinary protobuf message, whose last field on
// the wire may be `bytes payload = 1000`. Any language reads and writes it with
// generated code; here the payload never enters protobuf, a string or one run
// of bytes.

// The number of the field that carries a payload, and of the one that says
// where in shared memory it lies instead.
inline constexpr int kPayloadField = 1000;
inline constexpr int kSharedField = 1001;
// Pieces of a payload from this size on travel by reference; smaller ones are
// copied beside their neighbours.
inline constexpr size_t kByReferenceBytes = 4096;
// The longest head, and the longest message without a payload field.
inline constexpr size_t kMostHeadBytes = size_t{1} << 20;

// The bytes of `head`, of `shared` as its field unless that is null, and then
// of `payload`. Big pieces of the payload are referenced until gRPC has sent
// them, which may be after the call's end. REQUIRES: head's own fields of these
// numbers are empty; a head without such a field has no payload, or no
// `shared`.
grpc::ByteBuffer EncodeMessage(const google::protobuf::Message& head,
                               const BufferChain& payload,
                               const v1::SharedPayload* shared = nullptr);

struct WireMessage {
  Head head;
  // References into what was received, cut wherever the network cut it.
  BufferChain payload;
};

// The message in `bytes`, its head of the type of `prototype`.
// kInvalidArgument, naming the type and what is wrong: a field cut short, a
// payload whose length is not that of what follows (so also anything after
// it), a head above kMostHeadBytes or one that is not of the type.
absl::StatusOr<WireMessage> DecodeMessage(
    const grpc::ByteBuffer& bytes, const google::protobuf::Message& prototype);

// Which way a payload goes: through memory shared with the peer if there is any
// and it has room, else in the message. Only the two ends see a difference.

struct OutgoingMessage {
  grpc::ByteBuffer bytes;
  // Of the message and its payload, wherever that lies: what limits count.
  size_t size = 0;
};

// A request or its answer, its payload put into `memory` (null: none) unless it
// is small, finds no room, or is above the method's limit with its head. A
// request names the memory even so: the answer's payload may lie there.
OutgoingMessage EncodeRequest(const Method& method,
                              const google::protobuf::Message& head,
                              const BufferChain& payload, SharedMemory* memory);
OutgoingMessage EncodeReply(const Method& method,
                            const google::protobuf::Message& head,
                            const BufferChain& payload, SharedMemory* memory);

// What `message` says of shared memory, taken out of its head: cores do not see
// it. Nullopt: nothing.
absl::optional<v1::SharedPayload> TakeShared(WireMessage* message);

// Adds the payload that lies in `memory` (null: the one it names is not known).
// kInvalidArgument as SharedMemory::Take, or if the message has another
// payload; kUnavailable if there are pieces of unknown memory: its process
// greets again, makes new memory and sends anew.
absl::Status TakeSharedPayload(const v1::SharedPayload& shared,
                               SharedMemory* memory, WireMessage* message);

// Whether messages of this type may carry a payload, or say where in shared
// memory one lies or may lie.
bool HasPayloadField(const google::protobuf::Descriptor* type);
bool HasSharedField(const google::protobuf::Descriptor* type);

}  // namespace paramd

#endif  // PARAMD_NET_WIRE_MESSAGE_H_
