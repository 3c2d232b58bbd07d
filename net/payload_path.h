#ifndef PARAMD_NET_PAYLOAD_PATH_H_
#define PARAMD_NET_PAYLOAD_PATH_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

#include "net/method_table.h"
#include "net/shared_memory.h"
#include "net/wire_message.h"
#include "proto/paramd/v1/data.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// Which way a payload goes: through memory shared with the peer if there is any
// and it has room, else in the message. Nothing outside sees a difference.

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

}  // namespace paramd

#endif  // PARAMD_NET_PAYLOAD_PATH_H_
