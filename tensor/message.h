#ifndef PARAMD_TENSOR_MESSAGE_H_
#define PARAMD_TENSOR_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "tensor/buffer.h"

namespace paramd {

// Who a message comes from or goes to: a task of the cluster, its coordinator,
// or somebody outside (a person's command, a test).
struct PeerId {
  enum class Kind : uint8_t { kOutside, kPs, kWorker, kCoordinator, kStage };

  Kind kind = Kind::kOutside;
  uint32_t index = 0;

  static constexpr PeerId Ps(uint32_t index) { return {Kind::kPs, index}; }
  static constexpr PeerId Worker(uint32_t index) {
    return {Kind::kWorker, index};
  }
  static constexpr PeerId Coordinator() { return {Kind::kCoordinator, 0}; }
  static constexpr PeerId Stage(uint32_t index) {
    return {Kind::kStage, index};
  }
  // A worker that has no index yet: see EnlistRequest.
  static constexpr PeerId AnyWorker() { return {Kind::kWorker, 0xffffffff}; }

  friend constexpr auto operator<=>(const PeerId&, const PeerId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PeerId& p) {
    return H::combine(std::move(h), static_cast<int>(p.kind), p.index);
  }
};

// "ps-0", "worker-3", "coordinator", "stage-1", "outside".
std::string PeerName(PeerId peer);

// Names a call. A request's id is the transport's, to be given back in Reply; a
// reply's id is the one that the receiving core gave to Send.
using CallId = uint64_t;

// Names work outside the cores (a file, a computation) that a core started.
using IoId = uint64_t;

// One event from a peer: its request, or its reply (or the transport's failure)
// to a call of ours. The type of `head` says which method it is. `head` and the
// payload's bytes are valid during Receive; a Buffer kept keeps its bytes.
struct Message {
  PeerId from;
  CallId call = 0;
  bool is_reply = false;
  // Not OK only for a reply; then `head` is null.
  absl::Status status;
  const google::protobuf::Message* head = nullptr;
  BufferChain payload;
  // Of a reply: payloads of this call went through memory that both processes
  // see, or would have.
  bool in_shared_memory = false;
};

// Ends a message that is on the heap, or alone in an arena of its own.
struct HeadDeleter {
  HeadDeleter() = default;
  // Of what std::make_unique has made.
  template <typename T>
  HeadDeleter(std::default_delete<T>) {}
  void operator()(google::protobuf::Message* head) const;
};
using Head = std::unique_ptr<google::protobuf::Message, HeadDeleter>;

// An empty message of the type of `prototype` whose parts take no allocation
// each: for one that names blocks, maybe by the hundred.
Head MakeHeadLike(const google::protobuf::Message& prototype);
template <typename T>
std::unique_ptr<T, HeadDeleter> MakeHead() {
  return std::unique_ptr<T, HeadDeleter>(
      static_cast<T*>(MakeHeadLike(T::default_instance()).release()));
}

// What became of work started with Outbox::StartIo. `head` may be null.
struct IoResult {
  IoId io = 0;
  absl::Status status;
  Head head;
  BufferChain payload;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_MESSAGE_H_
