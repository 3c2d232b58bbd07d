#include "tests/sim/simulation.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/crc32c.h"

namespace paramd {
namespace {

constexpr absl::string_view kKindNames[] = {"start",    "request", "reply",
                                            "deadline", "io",      "done",
                                            "tick",     "action",  "exit"};

uint32_t Crc(const BufferChain& payload) {
  uint32_t crc = 0;
  for (const Buffer& buffer : payload) crc = Crc32c(buffer.bytes(), crc);
  return crc;
}

Outbox::Head Clone(const google::protobuf::Message& head) {
  Outbox::Head copy(head.New());
  copy->CopyFrom(head);
  return copy;
}

// While a simulation runs, a broken invariant that ends the process says how to
// see it again. Static, since a signal handler can't be handed anything.
class SayReplayOnAbort {
 public:
  explicit SayReplayOnAbort(const std::string& replay_command) {
    std::snprintf(text_, sizeof(text_), "replay: %s\n", replay_command.c_str());
    before_ = std::signal(SIGABRT, [](int) {
      if (write(STDERR_FILENO, text_, std::strlen(text_)) < 0) return;
    });
  }
  ~SayReplayOnAbort() { std::signal(SIGABRT, before_); }
  SayReplayOnAbort(const SayReplayOnAbort&) = delete;
  SayReplayOnAbort& operator=(const SayReplayOnAbort&) = delete;

 private:
  static char text_[512];
  void (*before_)(int);
};
char SayReplayOnAbort::text_[512];

std::string Age(int64_t now, int64_t since) {
  return absl::FormatDuration(absl::Nanoseconds(now - since));
}

}  // namespace

Simulation::Simulation(Options options)
    : options_(std::move(options)),
      random_(options_.seed),
      network_(options_.faults, &random_),
      trace_(options_.verbose) {}

void Simulation::AddNode(PeerId self, Core* core, absl::Duration start_within) {
  CHECK(Living(self) == nullptr, "a task has one node at a time");
  Node& node = nodes_[self] = Node();
  node.core = core;
  node.life = ++lives_;
  node.clock_offset = Draw(absl::ZeroDuration(), absl::Hours(1000));
  Event event;
  event.kind = Kind::kStart;
  event.node = self;
  event.life = node.life;
  Schedule(now_ + Draw(absl::ZeroDuration(), start_within), std::move(event));
}

void Simulation::Crash(PeerId self) {
  Node* const node = Living(self);
  CHECK(node != nullptr, "only a living node crashes");
  CloseIncoming(node);
  nodes_.erase(self);
}

void Simulation::Drain(PeerId self) {
  Node* const node = Living(self);
  if (node == nullptr || !node->started) return;
  Outbox out;
  node->core->Drain(NodeTime(*node), &out);
  Empty(self, node, std::move(out));
}

bool Simulation::HasExited(PeerId self) const {
  const auto found = nodes_.find(self);
  return found != nodes_.end() && found->second.exited;
}

void Simulation::CutOff(PeerId self, absl::Duration time) {
  network_.CutOff(self, now_ + absl::ToInt64Nanoseconds(time));
}

void Simulation::HandleIo(PeerId self, const google::protobuf::Descriptor* type,
                          IoDelay delay, IoHandler handler) {
  ios_[{self, type}] = {delay, std::move(handler)};
}

void Simulation::At(absl::Duration since_start, std::function<void()> action) {
  Event event;
  event.action = std::move(action);
  Schedule(std::max(now_, absl::ToInt64Nanoseconds(since_start)),
           std::move(event));
}

absl::Status Simulation::Run() {
  const SayReplayOnAbort say_replay(options_.replay_command);
  const int64_t stall = absl::ToInt64Nanoseconds(options_.stall_limit);
  while (failure_.ok()) {
    const bool over =
        std::all_of(nodes_.begin(), nodes_.end(),
                    [](const auto& entry) { return entry.second.exited; });
    if (over || ended_) return absl::OkStatus();
    if (queue_.empty()) {
      Fail(absl::DeadlineExceededError("nothing is left that could happen"));
      break;
    }
    auto next = queue_.extract(queue_.begin());
    now_ = next.key().first;
    if (now_ - progressed_at_ > stall) {
      Fail(absl::DeadlineExceededError(
          absl::StrCat("no progress for ", Age(now_, progressed_at_))));
    } else if (++events_ > options_.event_limit) {
      Fail(absl::DeadlineExceededError(
          absl::StrCat("more than ", options_.event_limit, " events")));
    } else {
      Handle(std::move(next.mapped()));
    }
  }
  return failure();
}

void Simulation::Fail(absl::Status failure) {
  if (failure_.ok()) failure_ = std::move(failure);
}

absl::Status Simulation::failure() const {
  if (failure_.ok()) return absl::OkStatus();
  return absl::Status(
      failure_.code(),
      absl::StrCat(failure_.message(), "\n  seed ", options_.seed, " after ",
                   absl::FormatDuration(elapsed()), " and ", events_,
                   " events; network: ", options_.faults.ToString(),
                   "\n  replay: ", options_.replay_command, "\n", Waits()));
}

std::string Simulation::Waits() const {
  std::string text;
  for (const auto& [peer, node] : nodes_) {
    absl::StrAppend(&text, "  ", PeerName(peer),
                    node.exited    ? " has exited\n"
                    : node.started ? " waits for:\n"
                                   : " has not started\n");
    for (const auto& [id, call] : node.calls) {
      absl::StrAppend(&text, "    ", PeerName(call->to), ": ",
                      call->type->name(), ", sent ", Age(now_, call->sent_at),
                      " ago\n");
    }
    for (const auto& [id, delivery] : node.incoming) {
      absl::StrAppend(&text, "    (has not answered ",
                      delivery.call->type->name(), " of ",
                      PeerName(delivery.call->from), ", received ",
                      Age(now_, delivery.since), " ago)\n");
    }
    for (const auto& [id, io] : node.ios) {
      absl::StrAppend(&text, "    its own ", io.type->name(), ", started ",
                      Age(now_, io.since), " ago\n");
    }
    if (node.tick_at != 0) {
      absl::StrAppend(&text, "    a tick in ", Age(node.tick_at, now_), "\n");
    }
  }
  return text;
}

Simulation::Node* Simulation::Living(PeerId peer, uint64_t life) {
  const auto found = nodes_.find(peer);
  if (found == nodes_.end() || found->second.exited) return nullptr;
  if (life != 0 && found->second.life != life) return nullptr;
  return &found->second;
}

Time Simulation::NodeTime(const Node& node) const {
  return Time::FromNanoseconds(now_ + node.clock_offset);
}

int64_t Simulation::Draw(absl::Duration shortest, absl::Duration longest) {
  return DrawNanoseconds(shortest, longest, &random_);
}

void Simulation::Schedule(int64_t at, Event event) {
  queue_.emplace(std::make_pair(at, ++scheduled_), std::move(event));
}

void Simulation::Handle(Event event) {
  switch (event.kind) {
    case Kind::kStart:
      return Start(Living(event.node, event.life), event);
    case Kind::kRequest:
      return DeliverRequest(std::move(event));
    case Kind::kReply:
      return DeliverReply(std::move(event));
    case Kind::kDeadline:
      return PassDeadline(event);
    case Kind::kIoEffect:
      return DoIo(std::move(event));
    case Kind::kIoDone:
      return FinishIo(std::move(event));
    case Kind::kTick:
      return Tick(event);
    case Kind::kAction:
      Trace(event);
      return event.action();
    case Kind::kExit:
      return;
  }
}

void Simulation::Start(Node* node, const Event& event) {
  if (node == nullptr) return;
  Trace(event);
  node->started = true;
  Outbox out;
  node->core->Start(NodeTime(*node), &out);
  Empty(event.node, node, std::move(out));
}

void Simulation::DeliverRequest(Event event) {
  Node* const node = Living(event.node);
  if (node == nullptr || !node->started) {
    return FailCall(event.call, now_ + network_.DrawDelay(),
                    "connection refused");
  }
  Trace(event);
  const CallId id = next_delivery_++;
  node->incoming[id] = {event.call, now_};
  Message message;
  message.from = event.call->from;
  message.call = id;
  message.head = event.head.get();
  message.payload = Arrive(event);
  Outbox out;
  node->core->Receive(std::move(message), NodeTime(*node), &out);
  Empty(event.node, node, std::move(out));
}

void Simulation::DeliverReply(Event event) {
  Node* const node = Living(event.node, event.life);
  if (node == nullptr) return;
  if (event.call->settled) {
    // A failure that the transport noticed a second time is not told.
    if (event.head == nullptr ||
        !network_.AdmitsSecondReply(event.call->type->name())) {
      return;
    }
  }
  Trace(event);
  event.call->settled = true;
  node->calls.erase(event.call->id);
  Message message;
  message.from = event.call->to;
  message.call = event.call->id;
  message.is_reply = true;
  message.status = event.status;
  message.head = event.head.get();
  message.payload = Arrive(event);
  Outbox out;
  node->core->Receive(std::move(message), NodeTime(*node), &out);
  Empty(event.node, node, std::move(out));
}

void Simulation::PassDeadline(const Event& event) {
  if (event.call->settled) return;
  network_.Count("deadline", event.call->type->name());
  Event reply;
  reply.kind = Kind::kReply;
  reply.node = event.node;
  reply.life = event.life;
  reply.call = event.call;
  reply.status = absl::DeadlineExceededError(
      absl::StrCat("no answer from ", PeerName(event.call->to)));
  DeliverReply(std::move(reply));
}

void Simulation::DoIo(Event event) {
  Node* const node = Living(event.node, event.life);
  if (node == nullptr) return;
  Trace(event);
  const Io& io = ios_.at({event.node, event.head->GetDescriptor()});
  Event done;
  done.kind = Kind::kIoDone;
  done.node = event.node;
  done.life = event.life;
  done.io = event.io;
  IoResult result =
      io.handler({event.io, std::move(event.head), std::move(event.payload)});
  done.status = std::move(result.status);
  done.head = std::move(result.head);
  done.payload = std::move(result.payload);
  Schedule(now_ + Draw(io.delay.shortest, io.delay.longest) / 2,
           std::move(done));
}

void Simulation::FinishIo(Event event) {
  Node* const node = Living(event.node, event.life);
  if (node == nullptr) return;
  Trace(event);
  NoteProgress();
  node->ios.erase(event.io);
  Outbox out;
  node->core->Completed({event.io, std::move(event.status),
                         std::move(event.head), std::move(event.payload)},
                        NodeTime(*node), &out);
  Empty(event.node, node, std::move(out));
}

void Simulation::Tick(const Event& event) {
  Node* const node = Living(event.node, event.life);
  if (node == nullptr || node->tick_at != now_) return;
  Trace(event);
  node->tick_at = 0;
  Outbox out;
  node->core->Tick(NodeTime(*node), &out);
  Empty(event.node, node, std::move(out));
}

void Simulation::Empty(PeerId self, Node* node, Outbox out) {
  for (const std::string& note : out.notes) {
    trace_.AddNote(now_, self, note);
  }
  for (Outbox::ReplyItem& item : out.replies) {
    Answer(self, node, std::move(item));
  }
  for (Outbox::SendItem& item : out.sends) Send(self, node, std::move(item));
  for (Outbox::IoItem& item : out.ios) StartIo(self, node, std::move(item));
  if (out.exited) return Exit(self, node, out.exit_status);
  ScheduleTick(self, node);
}

void Simulation::Send(PeerId self, Node* node, Outbox::SendItem item) {
  if (item.head == nullptr || node->calls.count(item.call) != 0 ||
      item.deadline <= absl::ZeroDuration() ||
      item.deadline > absl::Hours(24)) {
    return Fail(absl::InternalError(
        absl::StrCat(PeerName(self), " sent call ", item.call,
                     " without a head, with a deadline of ",
                     absl::FormatDuration(item.deadline), ", or twice")));
  }
  if (tap_) tap_(self, item.to, *item.head);
  const int64_t patience = absl::ToInt64Nanoseconds(item.deadline);
  const CallRef call = std::make_shared<Call>(
      Call{self, item.to, node->life, item.call, item.head->GetDescriptor(),
           now_, now_ + patience, false});
  node->calls[item.call] = call;
  Event deadline;
  deadline.kind = Kind::kDeadline;
  deadline.node = self;
  deadline.life = node->life;
  deadline.call = call;
  Schedule(call->deadline_at, std::move(deadline));

  const SimNetwork::Fate fate = network_.OfRequest(
      {self, item.to, call->type->name(), now_}, item.deadline);
  if (fate.fails_at.has_value()) {
    FailCall(call, *fate.fails_at, "connection lost");
  }
  for (const int64_t at : fate.arrives_at) SendOneRequest(call, item, at);
}

void Simulation::SendOneRequest(const CallRef& call,
                                const Outbox::SendItem& item, int64_t at) {
  Event event;
  event.kind = Kind::kRequest;
  event.node = call->to;
  event.call = call;
  event.head = Clone(*item.head);
  event.payload = item.payload;
  event.payload_crc = Crc(item.payload);
  Schedule(at, std::move(event));
}

BufferChain Simulation::Arrive(const Event& event) {
  if (Crc(event.payload) != event.payload_crc) {
    Fail(absl::InternalError(
        absl::StrCat("the payload of a ", event.head->GetDescriptor()->name(),
                     " was changed after it had been sent")));
  }
  return network_.Recut(event.payload);
}

void Simulation::Answer(PeerId self, Node* node, Outbox::ReplyItem item) {
  const auto found = node->incoming.find(item.call);
  if (found == node->incoming.end()) {
    return Fail(absl::InternalError(
        absl::StrCat(PeerName(self), " answered call ", item.call,
                     ", which it does not have or has answered")));
  }
  const CallRef call = found->second.call;
  node->incoming.erase(found);
  if (item.status.ok() == (item.head == nullptr)) {
    return Fail(absl::InternalError(
        absl::StrCat(PeerName(self), " answered ", call->type->name(),
                     " with neither or both of a reply and an error")));
  }
  const SimNetwork::Fate fate =
      network_.OfReply({self, call->from, call->type->name(), now_});
  if (fate.fails_at.has_value()) {
    FailCall(call, *fate.fails_at, "connection lost");
  }
  for (const int64_t at : fate.arrives_at) {
    Event event;
    event.kind = Kind::kReply;
    event.node = call->from;
    event.life = call->sender_life;
    event.call = call;
    event.status = item.status;
    if (item.head != nullptr) event.head = Clone(*item.head);
    event.payload = item.payload;
    event.payload_crc = Crc(item.payload);
    Schedule(at, std::move(event));
  }
}

void Simulation::StartIo(PeerId self, Node* node, Outbox::IoItem item) {
  const google::protobuf::Descriptor* const type = item.head->GetDescriptor();
  const auto io = ios_.find({self, type});
  if (io == ios_.end() || node->ios.count(item.io) != 0) {
    return Fail(absl::InternalError(
        absl::StrCat(PeerName(self), " started ", type->name(), " ", item.io,
                     ", which nobody does or which has been started")));
  }
  node->ios[item.io] = {type, now_};
  Event event;
  event.kind = Kind::kIoEffect;
  event.node = self;
  event.life = node->life;
  event.io = item.io;
  event.head = std::move(item.head);
  event.payload = std::move(item.payload);
  const IoDelay& delay = io->second.delay;
  Schedule(now_ + Draw(delay.shortest, delay.longest) / 2, std::move(event));
}

void Simulation::Exit(PeerId self, Node* node, const absl::Status& status) {
  Event event;
  event.kind = Kind::kExit;
  event.node = self;
  event.status = status;
  Trace(event);
  NoteProgress();
  node->exited = true;
  CloseIncoming(node);
  node->calls.clear();
  node->ios.clear();
  node->tick_at = 0;
  if (!status.ok()) {
    Fail(absl::AbortedError(
        absl::StrCat(PeerName(self), " exited: ", status.ToString())));
  }
}

void Simulation::FailCall(const CallRef& call, int64_t at,
                          absl::string_view why) {
  if (call->settled || at >= call->deadline_at) return;
  Event event;
  event.kind = Kind::kReply;
  event.node = call->from;
  event.life = call->sender_life;
  event.call = call;
  event.status =
      absl::UnavailableError(absl::StrCat(PeerName(call->to), ": ", why));
  Schedule(at, std::move(event));
}

void Simulation::CloseIncoming(Node* node) {
  for (const auto& [id, delivery] : node->incoming) {
    FailCall(delivery.call, now_ + network_.DrawDelay(), "connection closed");
  }
  node->incoming.clear();
}

void Simulation::ScheduleTick(PeerId self, Node* node) {
  const Time wanted = node->core->next_tick();
  if (wanted == Time::Never()) {
    node->tick_at = 0;
    return;
  }
  // Never at this very moment, so that time passes whatever a core wants.
  const int64_t lateness = Draw(absl::Microseconds(1), absl::Milliseconds(2));
  int64_t at =
      std::max(now_, wanted.nanoseconds() - node->clock_offset) + lateness;
  if (random_.Chance(0.02)) at = now_ + lateness;
  if (node->tick_at != 0 && node->tick_at > now_ && node->tick_at <= at &&
      node->tick_at + absl::ToInt64Nanoseconds(absl::Milliseconds(2)) >= at) {
    return;  // The one that is due will do.
  }
  node->tick_at = at;
  Event event;
  event.kind = Kind::kTick;
  event.node = self;
  event.life = node->life;
  Schedule(at, std::move(event));
}

void Simulation::Trace(const Event& event) {
  const bool is_message = event.call != nullptr;
  trace_.Add(
      {.at = now_,
       .kind = kKindNames[static_cast<int>(event.kind)],
       .node = event.node,
       .from = !is_message                    ? event.node
               : event.kind == Kind::kRequest ? event.call->from
                                              : event.call->to,
       .is_message = is_message,
       .head = event.head.get(),
       .payload_crc = is_message ? event.payload_crc : Crc(event.payload),
       .payload_bytes = ChainSize(event.payload),
       .status = event.status});
}

}  // namespace paramd
