#ifndef PARAMD_TESTS_SIM_SIMULATION_H_
#define PARAMD_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"

#include "base/random.h"
#include "tensor/core.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/faults.h"
#include "tests/sim/network.h"
#include "tests/sim/simulation_watcher.h"
#include "tests/sim/told_configurations.h"
#include "tests/sim/trace.h"

namespace paramd {

// How long ago, in nanoseconds of simulated time, "2s".
std::string Age(int64_t now, int64_t since);

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
// settled before. In every eleventh seed it says now and then that payloads go
// through shared memory, and takes it back. Nodes share no payload, and each
// has a clock of its own.
//
// A task has one node that others reach, and any number of orphans: processes
// that were replaced and do not know it yet. What they have sent and send still
// arrives, and they hear the answers.
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
    // Who calls a process that has ended hears that. REQUIRES: no orphans but
    // of the coordinator.
    bool tells_ends = false;
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

  // Where a fault script may step in, outside of any core: before a core sees a
  // request; when it has, and nothing of what it answers, sends and starts is
  // on its way; before work is done; when it is, and the core has not heard.
  enum class Moment { kBeforeRequest, kAfterRequest, kBeforeIo, kAfterIo };
  // May do anything to any node. If it ends `self`, what was under way there
  // ends too: a core that has acted on a request takes its answer with it.
  using Interrupter =
      std::function<void(Moment, const SimProcess& self, PeerId from,
                         const google::protobuf::Message& head)>;
  // Judges the end of a process; what is not OK fails the run. Without one, any
  // exit with an error does. It may add nodes.
  using ExitJudge =
      std::function<absl::Status(const SimProcess&, const absl::Status&)>;

  explicit Simulation(Options options);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // A node that starts within `start_within`; a later life of `self`, if that
  // has exited. Returns that life. REQUIRES: no living node `self`.
  uint64_t AddNode(PeerId self, Core* core,
                   absl::Duration start_within = absl::Seconds(1));
  // The node is gone at once: callers of its open calls hear UNAVAILABLE, what
  // it sent is still under way, work it started ends unheard or is not done.
  // With `late_work` all of it is done, at its time. AddNode may bring the task
  // back, with another core.
  // REQUIRES: a living node `self`; not called from inside its core.
  void Crash(PeerId self, bool late_work = false);
  // The node becomes an orphan; AddNode brings its successor. Who talked to it
  // last before goes on doing so for up to `stick`.
  // REQUIRES: a living node `self`; not called from inside its core.
  void Orphan(PeerId self, absl::Duration stick);
  // Tells the core of a node to drain; nothing happens if it has not started or
  // has exited.
  void Drain(PeerId self);
  // The same, that another core of its process has failed.
  void FailBeside(PeerId self, const absl::Status& why);
  // Ends this one process, which may have been replaced, with that status;
  // nothing happens if it has ended.
  void Stop(const SimProcess& process, const absl::Status& status);
  bool HasExited(PeerId self) const;
  // This one process, which may have been replaced, is gone.
  bool HasEnded(const SimProcess& process) {
    return Living(process) == nullptr;
  }
  // The node of the task that others reach has started and has not ended.
  bool IsUp(PeerId self) const;

  // For this long everything that the node sends and that is sent to it is
  // lost.
  void CutOff(PeerId self, absl::Duration time);
  // What `from` sends to `to`, replies included; nothing of the other
  // direction.
  void CutLink(PeerId from, PeerId to, absl::Duration time);
  // What the node sends and is sent takes a hundred times as long.
  void Slow(PeerId self, absl::Duration time);
  // From now on what `from` sends to the task `to` goes to this life of it,
  // which refuses it if it has ended, whomever others reach.
  void Route(PeerId from, PeerId to, uint64_t life);
  // The connection of two nodes breaks: requests and replies that are under way
  // between them never arrive, and the senders of all open calls hear it.
  void Reset(PeerId a, PeerId b);
  // For this long nothing happens to the node; what was due then comes at the
  // end, in its order. Its clock goes on.
  void Pause(PeerId self, absl::Duration time);
  // Something outside of it changed what the node's core wants.
  void Wake(PeerId self) { JumpClock(self, absl::ZeroDuration()); }
  // The node's clock goes ahead at once, as if it had slept.
  void JumpClock(PeerId self, absl::Duration ahead);

  // Work of type `type` that a node of `self` starts which begins from now on.
  void HandleIo(PeerId self, const google::protobuf::Descriptor* type,
                IoDelay delay, IoHandler handler);
  // Not owned; outlives the run.
  void Watch(SimulationWatcher* watcher) { watcher_ = watcher; }
  void OnMoment(Interrupter interrupter) { interrupter_ = interrupter; }
  void OnExit(ExitJudge judge) { judge_ = std::move(judge); }
  // Runs `action` at that time after the beginning: for fault scripts.
  void At(absl::Duration since_start, std::function<void()> action);

  // Runs until every living node has exited, orphans and who is outside of the
  // job aside. OK if all
  // of them did as the judge says. Otherwise an error that names the seed, the
  // replay command and what every node waits for: kDeadlineExceeded if nothing
  // got on for `stall_limit` or `event_limit` was reached, kAborted if a node
  // exited with an error, kInternal if a core broke the rules of an outbox, or
  // what Fail was called with.
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
  // A fault of a script, which is counted with those of the network.
  void CountFault(const std::string& fault, const std::string& what) {
    network_.Count(fault, what);
  }
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
    SimProcess from;
    PeerId to;
    uint64_t to_life = 0;  // 0: whichever others reach.
    CallId id = 0;         // The sender's.
    std::shared_ptr<const google::protobuf::Message> head;
    BufferChain payload;
    uint64_t head_hash = 0;
    int64_t sent_at = 0;
    int64_t deadline_at = 0;
    bool settled = false;
    bool reset = false;
    bool received = false;  // Once, at least.
    bool refused = false;   // What was received of it first.

    const std::string& type() const { return head->GetDescriptor()->name(); }
  };
  using CallRef = std::shared_ptr<Call>;  // Shared by its deliveries.
  struct Io {
    IoDelay delay;
    IoHandler handler;
  };
  using IoRef = std::shared_ptr<const Io>;  // Shared with those that use it.

  struct Event {
    Kind kind = Kind::kAction;
    SimProcess node;
    CallRef call;
    absl::Status status;
    // Of a reply, or of work.
    std::shared_ptr<google::protobuf::Message> head;
    uint64_t head_hash = 0;
    // The sender's own bytes, so that they are in use until they arrive, and
    // what they were when they left.
    BufferChain payload;
    uint32_t payload_crc = 0;
    IoId io = 0;
    IoRef work;
    std::function<void()> action;
  };

  struct OpenIo {
    const google::protobuf::Descriptor* type = nullptr;
    int64_t since = 0;
  };
  struct Delivery {
    CallRef call;
    int64_t since = 0;
    bool again = false;  // Not the first of its call.
  };
  struct Node {
    SimProcess self;
    Core* core = nullptr;
    bool started = false;
    bool exited = false;
    int64_t clock_offset = 0;
    int64_t tick_at = 0;  // When the tick that counts is due; 0: none is.
    int64_t paused_until = 0;
    std::map<const google::protobuf::Descriptor*, IoRef> works;
    std::map<CallId, CallRef> calls;      // Sent and not settled.
    std::map<CallId, Delivery> incoming;  // Received and not answered.
    std::map<IoId, OpenIo> ios;
  };
  // Whom a node talks to instead of the one that others reach.
  struct Stuck {
    uint64_t life = 0;
    int64_t until = 0;
  };

  // The node, or null if it is not alive; of life 0: the one that others reach.
  Node* Living(const SimProcess& process);
  Time NodeTime(const Node& node) const;
  int64_t Draw(absl::Duration shortest, absl::Duration longest);
  void Schedule(int64_t at, Event event);

  void Handle(std::unique_ptr<Event> event);
  void Start(Node* node, const Event& event);
  void DeliverRequest(Event event);
  void DeliverReply(Event event);
  void PassDeadline(const Event& event);
  void DoIo(Event event);
  void FinishIo(Event event);
  void Tick(const Event& event);
  // Whether the node is still there afterwards.
  bool Interrupt(Moment moment, const SimProcess& self, PeerId from,
                 const google::protobuf::Message& head);

  void Empty(Node* node, Outbox out);
  void Send(Node* node, Outbox::SendItem item);
  void SendOneRequest(const CallRef& call, const BufferChain& payload,
                      int64_t at);
  // The payload as it arrives; fails the run if the sender changed it after it
  // had sent it.
  BufferChain Arrive(const Event& event);
  void Answer(Node* node, Outbox::ReplyItem item);
  void StartIo(Node* node, Outbox::IoItem item);
  void Exit(Node* node, const absl::Status& status);
  // The sender of a call hears that it failed, unless it is settled by then.
  void FailCall(const CallRef& call, int64_t at, absl::string_view why,
                bool has_ended = false);
  void ResetCalls(Node* node, PeerId with);
  void CloseIncoming(Node* node);
  void ScheduleTick(Node* node);
  void AppendWaits(const Node& node, std::string* text) const;

  static bool IsEmpty(const Event& event);
  void Trace(const Event& event);

  const Options options_;
  RandomStream random_;
  // Most answers say that payloads go through shared memory.
  const bool shares_memory_;
  RandomStream memory_;
  SimNetwork network_;
  EventTrace trace_;
  int64_t now_ = 1;
  int64_t progressed_at_ = 1;
  uint64_t events_ = 0;
  uint64_t lives_ = 0;
  CallId next_delivery_ = 1;
  absl::Status failure_;
  bool ended_ = false;
  SimulationWatcher* watcher_ = nullptr;
  ToldConfigurations told_;
  Interrupter interrupter_;
  ExitJudge judge_;
  EventQueue<Event> queue_;
  std::map<PeerId, Node> nodes_;
  std::map<uint64_t, Node> orphans_;                  // By life.
  std::map<std::pair<PeerId, PeerId>, Stuck> stuck_;  // By from and to.
  std::set<uint64_t> late_work_;  // Lives that ended and whose work is done.
  std::map<PeerId, std::map<const google::protobuf::Descriptor*, IoRef>> works_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SIMULATION_H_
