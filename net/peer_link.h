#ifndef PARAMD_NET_PEER_LINK_H_
#define PARAMD_NET_PEER_LINK_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"

#include "base/time.h"
#include "net/core_host.h"
#include "net/hello.h"
#include "net/memory_dial.h"
#include "net/method_table.h"
#include "net/tls.h"
#include "net/wire_message.h"

namespace paramd {

// The way to one process, with all its shards: a small connection for control
// and one for bulk, so that a heartbeat never queues behind weights. Made when
// first used.
//
//        ┌──── a call ────► GREETING ── Hello accepted ──► GREETED
//     STRANGE ◄── Hello failed ──┘                            │
//        ▲            the control connection was lost, a call │
//        └─────────── failed for want of one, or met another ─┘
//                     process
//
// A machine that vanishes ends no connection. So where nothing that was asked
// is answered, a second connection is made beside the first one, with a Hello.
// If another process answers there, it is the peer from then on, and calls to
// the one before it end; if not, all stays: a peer may be slow.
//
// Invariant: no call travels before a Hello was accepted on the present control
// connection, and each says which process answered that: another one, which a
// connection may lead to at any time, refuses it. Calls that come earlier wait
// for Hello (at most 1,024; within their deadlines) and fail as it does. Every
// call ends in one CoreHost::Replied, unless it was cancelled. What fails for
// want of a connection says whose and why in a few words: "ps-1
// at 10.0.0.7:7077: refused".
//
// Memory is shared with a peer of this machine that offers it in Hello, from
// when the peer has taken it over until the next Hello; calls under way keep
// it. What fails of that is logged, and payloads travel in messages.
//
// Not thread-safe: lives on the loop thread. Outlived by host and queue; calls
// under way must have left the queue before it goes (see CancelAll).
class PeerLink {
 public:
  struct Patience {
    absl::Duration hello;    // For an answer to Hello.
    absl::Duration silence;  // For any answer, where something was asked.
  };

  // `peer`: the process's peer, the first one of a server of several shards.
  // With TLS, unless null, it has to prove that.
  PeerLink(PeerId peer, std::string address, const Identity* self,
           std::shared_ptr<const Tls> tls, const Patience& patience,
           CoreHost* host, grpc::CompletionQueue* queue);
  ~PeerLink();

  // The process may move: `find` says where it is, asked before each call, on
  // the loop thread. Calls under way stay where they are. Null: it stays.
  void FindBy(std::function<std::string()> find) { find_ = std::move(find); }

  // As CoreHost::Transport; to any peer of the process. A message above the
  // method's limit fails with OVER_LIMIT and is not sent.
  void Send(CallId id, PeerId from, Outbox::SendItem item,
            const Method& method);
  void Cancel(CallId id);
  // To be called every second, or as often as the peer may be silent: dials it
  // anew if it is.
  void Tick(Time now);
  // Ends every call; their completions still come out of the queue.
  void CancelAll();

 private:
  class Call;
  class HelloCall;
  enum class State { kStrange, kGreeting, kGreeted };
  struct Connections {
    std::shared_ptr<grpc::Channel> control_channel;
    std::unique_ptr<grpc::GenericStub> control;
    std::unique_ptr<grpc::GenericStub> bulk;
  };

  Connections Connect() const;
  // As far as gRPC knows.
  bool IsUp() const;
  bool HasMoved() const { return find_ != nullptr && find_() != address_; }
  void Greet();
  void Greeted(absl::Status status, v1::HelloReply reply);
  // The same for a Hello on the connections beside.
  void GreetedBeside(absl::Status status, v1::HelloReply reply);
  void Meet(v1::HelloReply reply);
  // The peer has answered something.
  void Heard();
  void ShareMemory();
  void StopSharing();
  std::shared_ptr<MemoryDial> Shared();
  absl::Status Received(Call* call, WireMessage* message);
  void Begin(std::unique_ptr<Call> call);
  void Finished(Call* call);
  absl::Status Explain(PeerId to, const absl::Status& status) const;

  const PeerId peer_;
  std::string address_;
  std::function<std::string()> find_;
  const Identity* const self_;
  const std::shared_ptr<const Tls> tls_;  // May be null.
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const Patience patience_;
  CoreHost* const host_;
  grpc::CompletionQueue* const queue_;
  Connections connections_;
  Connections beside_;  // While the peer is silent.
  // From when on the next Hello takes new connections: the name of a peer that
  // was not reached is looked up anew.
  Time connect_again_ = Time::Never();
  State state_ = State::kStrange;
  std::string process_;          // Who answered the last Hello.
  v1::SharedMemoryOffer offer_;  // What it offered.
  // Null: nothing is shared. Shared with the calls that use its memory.
  std::shared_ptr<MemoryDial> dial_;
  HelloCall* hello_ = nullptr;  // Under way if kGreeting. Owned by the queue.
  HelloCall* hello_beside_ = nullptr;  // The same, on those beside; or null.
  // Since when something was asked and nothing answered. Never: nothing was.
  Time silent_since_ = Time::Never();
  std::deque<std::unique_ptr<Call>> waiting_;
  absl::flat_hash_map<CallId, Call*> under_way_;  // Owned by the queue.
};

}  // namespace paramd

#endif  // PARAMD_NET_PEER_LINK_H_
