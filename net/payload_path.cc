#include "net/payload_path.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace paramd {
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

absl::Status Malformed(const WireMessage& message, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "malformed ", message.head->GetDescriptor()->name(), ": ", what));
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
    return Malformed(*message, "a payload, and another in shared memory");
  }
  if (memory == nullptr) {
    return absl::UnavailableError("shared memory that is not known any more");
  }
  auto payload = memory->Take(shared);
  if (!payload.ok()) return Malformed(*message, payload.status().message());
  message->payload = *std::move(payload);
  return absl::OkStatus();
}

}  // namespace paramd
