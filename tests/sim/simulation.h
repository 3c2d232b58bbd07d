#ifndef PARAMD_TESTS_SIM_SIMULATION_H_
#define PARAMD_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"

#include "base/random.h"
#include "tensor/core.h"
#include "tests/sim/faults.h"
#include "tests/sim/network.h"
#include "tests/sim/trace.h"

namespace paramd {

// Drives the cores of any number of nodes in one thread, in simulated time,
// from one seed: requests, replies, work outside the cores and ticks are events
// in one queue, and everything that could happen in more than one way (how long
// a message takes, whether it is lost or comes twice, where its payload is cut)
// is drawn from the seed. The same seed and the same calls give the same
// events.
//
// What it does to messages is what a network may do: delays, and so reorders,
// them; loses a request or a reply, whereupon the sender hears UNAVAILABLE at
// some time or DEADLINE_EXCEEDED at its deadline, whether or not the receiver
// acted; delivers a request twice, under two call ids; delivers a request long
// after the sender was told that it failed; delivers a reply to a call that was
// settled before. Nodes share no byte and no message, and each has a clock of
// its own.
//
// Not thread-safe. Cores are not owned and outlive the simulation, or the
// Crash() that ends them.
class Simulation {
 public:
  struct Options {
    uint64_t seed = 1;
    Faults faults;
    // Simulated time without progress (see NoteProgress) that fails the run.
    absl::Duration stall_limit = absl::Minutes(10);
    uint64_t event_limit = 5'000'000;
    // Every event as a line on stdout.
    bool verbose = false;
    // Printed with every failure: how to see it again.
    std::string replay_command;
  };
  // How long work takes: drawn between the two.
  struct IoDelay {
    absl::Duration shortest = absl::Microseconds(10);
    absl::Duration longest = absl::Milliseconds(20);
  };
  // Does the work, at one moment somewhere in its duration; the result reaches
  // the core at the end. `io` of the result is filled in by the simulation.
  using IoHandler = std::function<IoResult(Outbox::IoItem item)>;
  // Sees every request when it is sent, before anything happens to it.
  using Tap = std::function<void(PeerId from, PeerId to,
                                 const google::protobuf::Message& head)>;

  explicit Simulation(Options options);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // A node that starts within `start_within`; a later life of `self`, if that
  // has exited. REQUIRES: no living node `self`.
  void AddNode(PeerId self, Core* core,
               absl::Duration start_within = absl::Seconds(1));
  // The node is gone at once: callers of its open calls hear UNAVAILABLE, what
  // it sent is still under way, work it started ends unheard or is not done.
  // AddNode may bring the task back, with another core.
  // REQUIRES: a living node `self`; not called from inside its core.
  void Crash(PeerId self);
  // Tells the core of a node to drain; nothing happens if it has not started or
  // has exited.
  void Drain(PeerId self);
  bool HasExited(PeerId self) const;
  // For this long everything that the node sends and that is sent to it is
  // lost.
  void CutOff(PeerId self, absl::Duration time);
  // Work of type `type` that `self` starts, for this and later lives of it.
  void HandleIo(PeerId self, const google::protobuf::Descriptor* type,
                IoDelay delay, IoHandler handler);
  void OnRequest(Tap tap) { tap_ = std::move(tap); }
  // Runs `action` at that time after the beginning: for fault scripts.
  void At(absl::Duration since_start, std::function<void()> action);

  // Runs until every living node has exited with OK. Otherwise an error that
  // names the seed, the replay command and what every node waits for:
  // kDeadlineExceeded if nothing got on for `stall_limit` or `event_limit` was
  // reached, kAborted if a node exited with an error, kInternal if a core broke
  // the rules of an outbox, or what Fail was called with.
  absl::Status Run();

  // Makes Run return OK as soon as the event that calls this is over, whoever
  // is alive.
  void End() { ended_ = true; }
  // Called by workloads when something got on; finished work counts by itself.
  void NoteProgress() { progressed_at_ = now_; }
  // Ends the run, or judges it afterwards; the first that is not OK wins.
  void Fail(absl::Status failure);
  // OK, or the first failure as Run describes it.
  absl::Status failure() const;

  absl::Duration elapsed() const { return absl::Nanoseconds(now_); }
  uint64_t trace_hash() const { return trace_.hash(); }
  uint64_t events() const { return events_; }
  const FaultCounts& fault_counts() const { return network_.counts(); }
  // Who waits for what, a line each.
  std::string Waits() const;

 private:
  enum class Kind : uint8_t {
    kStart,
    kRequest,
    kReply,
    kDeadline,
    kIoEffect,
    kIoDone,
    kTick,
    kAction,
    kExit,
  };

  // A request on its way and what became of it. `settled` once its sender has
  // heard of it.
  struct Call {
    PeerId from;
    PeerId to;
    uint64_t sender_life = 0;
    CallId id = 0;  // The sender's.
    const google::protobuf::Descriptor* type = nullptr;
    int64_t sent_at = 0;
    int64_t deadline_at = 0;
    bool settled = false;
  };
  using CallRef = std::shared_ptr<Call>;  // Shared by its deliveries.

  struct Event {
    Kind kind = Kind::kAction;
    PeerId node;
    uint64_t life = 0;
    CallRef call;
    absl::Status status;
    Outbox::Head head;
    // The sender's own bytes, so that they are in use until they arrive, and
    // what they were when they left.
    BufferChain payload;
    uint32_t payload_crc = 0;
    IoId io = 0;
    std::function<void()> action;
  };

  struct OpenIo {
    const google::protobuf::Descriptor* type = nullptr;
    int64_t since = 0;
  };
  struct Delivery {
    CallRef call;
    int64_t since = 0;
  };
  struct Node {
    Core* core = nullptr;
    uint64_t life = 0;
    bool started = false;
    bool exited = false;
    int64_t clock_offset = 0;
    int64_t tick_at = 0;  // When the tick that counts is due; 0: none is.
    std::map<CallId, CallRef> calls;      // Sent and not settled.
    std::map<CallId, Delivery> incoming;  // Received and not answered.
    std::map<IoId, OpenIo> ios;
  };
  struct Io {
    IoDelay delay;
    IoHandler handler;
  };

  // The node, or null if it is not alive (in life `life`, unless 0).
  Node* Living(PeerId peer, uint64_t life = 0);
  Time NodeTime(const Node& node) const;
  int64_t Draw(absl::Duration shortest, absl::Duration longest);
  void Schedule(int64_t at, Event event);

  void Handle(Event event);
  void Start(Node* node, const Event& event);
  void DeliverRequest(Event event);
  void DeliverReply(Event event);
  void PassDeadline(const Event& event);
  void DoIo(Event event);
  void FinishIo(Event event);
  void Tick(const Event& event);

  void Empty(PeerId self, Node* node, Outbox out);
  void Send(PeerId self, Node* node, Outbox::SendItem item);
  void SendOneRequest(const CallRef& call, const Outbox::SendItem& item,
                      int64_t at);
  // The payload as it arrives; fails the run if the sender changed it after it
  // had sent it.
  BufferChain Arrive(const Event& event);
  void Answer(PeerId self, Node* node, Outbox::ReplyItem item);
  void StartIo(PeerId self, Node* node, Outbox::IoItem item);
  void Exit(PeerId self, Node* node, const absl::Status& status);
  // The sender of a call hears that it failed, unless it is settled by then.
  void FailCall(const CallRef& call, int64_t at, absl::string_view why);
  void CloseIncoming(Node* node);
  void ScheduleTick(PeerId self, Node* node);

  void Trace(const Event& event);

  const Options options_;
  RandomStream random_;
  SimNetwork network_;
  EventTrace trace_;
  int64_t now_ = 1;
  int64_t progressed_at_ = 1;
  uint64_t events_ = 0;
  uint64_t scheduled_ = 0;
  uint64_t lives_ = 0;
  CallId next_delivery_ = 1;
  absl::Status failure_;
  bool ended_ = false;
  Tap tap_;
  // By (time, order of scheduling).
  std::map<std::pair<int64_t, uint64_t>, Event> queue_;
  std::map<PeerId, Node> nodes_;
  std::map<std::pair<PeerId, const google::protobuf::Descriptor*>, Io> ios_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SIMULATION_H_
