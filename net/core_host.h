#ifndef PARAMD_NET_CORE_HOST_H_
#define PARAMD_NET_CORE_HOST_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"

#include "net/mailbox.h"
#include "net/runtime.h"
#include "tensor/core.h"

namespace paramd {

// Drives the cores of one process: gives them events one at a time, empties
// their outboxes, joins them to each other by reference, keeps the deadlines of
// their calls, their ticks, their work outside and the rule for the end. What
// leaves the process goes to a Transport.
//
// Invariant: every SendItem ends in exactly one reply Message to its core, at
// its deadline at the latest, unless the core has exited; every work outside
// that is begun in exactly one completion. Nothing is delivered inside of
// another delivery.
//
// Not thread-safe: lives on the loop thread; only the IoDone of a work may be
// called elsewhere, and comes back through the mailbox, which is closed before
// this goes.
class CoreHost {
 public:
  // The way to other processes. Called on the loop thread, never reentered.
  class Transport {
   public:
    virtual ~Transport() = default;
    // Carries a request to a peer that is not in this process. Ends in one
    // CoreHost::Replied(id), unless Cancel(id) comes first.
    virtual void Send(CallId id, PeerId from, Outbox::SendItem item) = 0;
    // The answer to Send(id) is not wanted any more.
    virtual void Cancel(CallId id) = 0;
    // The answer to the request that Request() called item.call. Ids that the
    // transport has dropped are ignored.
    virtual void Reply(Outbox::ReplyItem item) = 0;
    // Gives up the oldest answer that is being sent for long, if there is one.
    virtual void CancelOldestReply() {}
    // Whether any peer is outside: else nobody is to be told of a failure.
    virtual bool HasPeers() const { return true; }
  };

  // `transport` may be null: then no peer is outside. Not owned.
  CoreHost(Transport* transport, std::shared_ptr<Mailbox> mailbox);

  // As in Runtime.
  void AddCore(PeerId self, Core* core);
  void OnExpired(PeerId self, std::function<void(CallId)> f);
  void HandleIo(const google::protobuf::Descriptor* type,
                Runtime::IoHandler handler) {
    io_handlers_[type] = std::move(handler);
  }
  void OnStatus(std::function<void(v1::StatusReply*)> fill);
  // What the fillers say, and whom each core waits for, as of the last
  // TellWaits.
  void FillStatus(v1::StatusReply* status) const;

  // Whether `peer` is a core of this process that has not exited.
  bool Serves(PeerId peer) const;

  // Calls Core::Start on every core, in the order of adding.
  void Start(Time now);
  // Takes in a request from outside for the core `to`; returns its id.
  // REQUIRES: Serves(to).
  CallId Request(PeerId from, PeerId to, Outbox::Head head,
                 BufferChain payload);
  // As Runtime::Ask.
  void Ask(PeerId to, Outbox::Head head, absl::Duration deadline,
           Runtime::Answer done, Time now);
  // Nobody waits any more for the answer to Request(id), made for `to`.
  void Expired(PeerId to, CallId id);
  // Takes in the answer to a request given to Transport::Send. Unknown ids (an
  // answer after the deadline) are ignored.
  void Replied(CallId id, absl::Status status, Outbox::Head head,
               BufferChain payload);
  // Whether payloads of calls to `peer` go through shared memory, from now on;
  // its replies say so.
  void SharesMemory(PeerId peer, bool shares);

  // Gives what is due: deadlines, ticks, and the oldest waiting event. False if
  // there was nothing.
  bool Turn(Time now);
  // When Turn will have something to do although nothing comes in.
  Time next_wakeup() const;
  // Says in the log, every few seconds, whom a core waits for and how long.
  // Returns when it wants to be called next: every second.
  Time TellWaits(Time now);
  bool has_waiting_events() const { return !events_.empty(); }
  // Requests of cores that have no answer yet.
  size_t open_calls() const { return calls_.size(); }

  // Tells every core to drain; the end is then `status`, at `timeout` at the
  // latest. Again, or after the end: no change.
  void Drain(absl::Status status, absl::Duration timeout, Time now);
  bool draining() const { return draining_; }

  // The end: every core has exited, or End was called. Where one has failed,
  // the others are told, and may tell other processes before they exit; without
  // peers that is the end.
  bool ended() const { return ended_; }
  const absl::Status& end_status() const { return end_status_; }
  // The first end counts.
  void End(absl::Status status);

 private:
  // Whom a core waits for, since when, and when that was last said.
  struct Wait {
    std::string whom;
    Time since;
    Time said;
  };
  struct Hosted {
    Core* core;
    bool exited = false;
    Wait wait = {};
    std::function<void(CallId)> expired = nullptr;
  };
  // A request of one of our cores that has no answer yet.
  struct OpenCall {
    PeerId from;
    CallId call;  // The core's own id.
    PeerId to;
    Time deadline;
    absl::Duration patience;
    bool outside;
    Runtime::Answer asked = nullptr;  // Set: no core waits, this does.
  };
  // A message or a completion on its way to the core `to`.
  struct Event {
    static Event Request(PeerId from, PeerId to, CallId id, Outbox::Head head,
                         BufferChain payload);
    static Event Completion(PeerId to, IoResult result);

    PeerId to;
    Message message;
    Outbox::Head head;
    bool is_completion = false;
    IoResult result;
  };

  void Deliver(Event event, Time now);
  void Empty(PeerId self, Outbox* out, Time now);
  void EmptySend(PeerId self, Outbox::SendItem item, Time now);
  // Completes with UNIMPLEMENTED if there is no handler, with
  // RESOURCE_EXHAUSTED if too many are open. REQUIRES: no open work of the core
  // has its id.
  void BeginIo(PeerId self, Outbox::IoItem item);
  void CompleteIo(PeerId self, IoResult result);
  void Exited(PeerId self, absl::Status status, Time now);
  void TellFailure(Time now);
  bool Expire(Time now);
  bool EndDrain(Time now);
  bool TickDue(Time now);

  Transport* const transport_;
  std::map<PeerId, Hosted> cores_;
  std::vector<PeerId> order_;
  std::vector<std::function<void(v1::StatusReply*)>> fillers_;
  std::deque<Event> events_;
  const std::shared_ptr<Mailbox> mailbox_;
  absl::flat_hash_map<const google::protobuf::Descriptor*, Runtime::IoHandler>
      io_handlers_;
  absl::flat_hash_set<std::pair<PeerId, IoId>> open_ios_;  // Bound: 4,096.
  CallId next_id_ = 1;
  absl::flat_hash_map<CallId, OpenCall> calls_;
  absl::flat_hash_set<PeerId> share_memory_;
  std::set<std::pair<Time, CallId>> deadlines_;  // One for each of calls_.
  Time looked_at_waits_;
  Time next_look_at_waits_;
  bool draining_ = false;
  Time drain_deadline_ = Time::Never();
  bool failed_ = false;  // A core.
  bool ended_ = false;
  // While draining, or once one has failed: what it will be.
  absl::Status end_status_;
};

}  // namespace paramd

#endif  // PARAMD_NET_CORE_HOST_H_
