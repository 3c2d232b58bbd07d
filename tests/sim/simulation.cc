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
#include "proto/paramd/v1/storage.pb.h"
#include "proto/refusal.h"

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

}  // namespace

std::string Age(int64_t now, int64_t since) {
  return absl::FormatDuration(absl::Nanoseconds(now - since));
}

Simulation::Simulation(Options options)
    : options_(std::move(options)),
      random_(options_.seed),
      shares_memory_(options_.seed % 11 == 4),
      memory_(StableHash("memory", options_.seed)),
      network_(options_.faults, &random_),
      trace_(options_.verbose) {}

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
        std::all_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
          return entry.second.exited ||
                 entry.first.kind == PeerId::Kind::kOutside;
        });
    if (over || ended_) return absl::OkStatus();
    if (queue_.empty()) {
      Fail(absl::DeadlineExceededError("nothing is left that could happen"));
      break;
    }
    auto [at, event] = queue_.Take();
    now_ = at;
    if (now_ - progressed_at_ > stall) {
      Fail(absl::DeadlineExceededError(
          absl::StrCat("no progress for ", Age(now_, progressed_at_))));
    } else if (++events_ > options_.event_limit) {
      Fail(absl::DeadlineExceededError(
          absl::StrCat("more than ", options_.event_limit, " events")));
    } else {
      Handle(std::move(event));
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

Simulation::Node* Simulation::Living(const SimProcess& process) {
  const auto found = nodes_.find(process.peer);
  if (found != nodes_.end() &&
      (process.life == 0 || found->second.self.life == process.life)) {
    return found->second.exited ? nullptr : &found->second;
  }
  const auto orphan = orphans_.find(process.life);
  if (orphan == orphans_.end() || orphan->second.exited) return nullptr;
  return &orphan->second;
}

Time Simulation::NodeTime(const Node& node) const {
  return Time::FromNanoseconds(now_ + node.clock_offset);
}

int64_t Simulation::Draw(absl::Duration shortest, absl::Duration longest) {
  return DrawNanoseconds(shortest, longest, &random_);
}

void Simulation::Schedule(int64_t at, Event event) {
  queue_.Put(at, std::make_unique<Event>(std::move(event)));
}

void Simulation::Handle(std::unique_ptr<Event> event) {
  if (event->kind == Kind::kAction) {
    Trace(*event);
    return event->action();
  }
  if (Node* const node = Living(event->node);
      node != nullptr && node->paused_until > now_) {
    if (event->kind == Kind::kTick) {
      if (node->tick_at != now_) return;
      node->tick_at = node->paused_until;
    }
    queue_.Put(node->paused_until, std::move(event));
    return;
  }
  switch (event->kind) {
    case Kind::kStart:
      return Start(Living(event->node), *event);
    case Kind::kRequest:
      return DeliverRequest(std::move(*event));
    case Kind::kReply:
      return DeliverReply(std::move(*event));
    case Kind::kDeadline:
      return PassDeadline(*event);
    case Kind::kIoEffect:
      return DoIo(std::move(*event));
    case Kind::kIoDone:
      return FinishIo(std::move(*event));
    case Kind::kTick:
      return Tick(*event);
    case Kind::kAction:
    case Kind::kExit:
      return;
  }
}

void Simulation::Start(Node* node, const Event& event) {
  if (node == nullptr) return;
  Trace(event);
  node->started = true;
  if (node->works.empty()) node->works = works_[node->self.peer];
  Outbox out;
  node->core->Start(NodeTime(*node), &out);
  Empty(node, std::move(out));
}

bool Simulation::Interrupt(Moment moment, const SimProcess& self, PeerId from,
                           const google::protobuf::Message& head) {
  if (interrupter_ == nullptr) return true;
  interrupter_(moment, self, from, head);
  return Living(self) != nullptr;
}

void Simulation::DeliverRequest(Event event) {
  // A push that was refused comes no second time: its sender counts on it that
  // what was refused is not in.
  if (event.call->reset || event.call->refused) return;
  Node* node = Living(event.node);
  if (node == nullptr || !node->started) {
    return FailCall(event.call, now_ + network_.DrawDelay(),
                    "connection refused", options_.tells_ends);
  }
  const SimProcess self = node->self;
  const PeerId from = event.call->from.peer;
  if (!Interrupt(Moment::kBeforeRequest, self, from, *event.call->head)) {
    return FailCall(event.call, now_ + network_.DrawDelay(),
                    "connection closed");
  }
  node = Living(self);
  Trace(event);
  if (watcher_ != nullptr) watcher_->Received(self, from, *event.call->head);
  const CallId id = next_delivery_++;
  const bool again = std::exchange(event.call->received, true);
  node->incoming[id] = {event.call, now_, again};
  Message message;
  message.from = from;
  message.call = id;
  message.head = event.call->head.get();
  message.payload = Arrive(event);
  Outbox out;
  node->core->Receive(std::move(message), NodeTime(*node), &out);
  if (!Interrupt(Moment::kAfterRequest, self, from, *event.call->head)) return;
  Empty(Living(self), std::move(out));
}

void Simulation::DeliverReply(Event event) {
  Node* const node = Living(event.node);
  const CallRef& call = event.call;
  // Of a broken connection only that it broke arrives.
  if (node == nullptr || (call->reset && event.head != nullptr)) return;
  if (call->settled) {
    // A failure that the transport noticed a second time is not told.
    if (event.head == nullptr || !network_.AdmitsSecondReply(call->type())) {
      return;
    }
  }
  Trace(event);
  call->settled = true;
  node->calls.erase(call->id);
  if (watcher_ != nullptr) {
    watcher_->Heard(node->self, call->to, *call->head, event.status,
                    event.head.get());
  }
  Message message;
  message.from = call->to;
  message.call = call->id;
  message.is_reply = true;
  message.status = event.status;
  message.head = event.head.get();
  message.payload = Arrive(event);
  message.in_shared_memory = shares_memory_ && memory_.Chance(0.8);
  Outbox out;
  node->core->Receive(std::move(message), NodeTime(*node), &out);
  Empty(node, std::move(out));
}

void Simulation::PassDeadline(const Event& event) {
  if (event.call->settled) return;
  network_.Count("deadline", event.call->type());
  Event reply;
  reply.kind = Kind::kReply;
  reply.node = event.node;
  reply.call = event.call;
  reply.status = absl::DeadlineExceededError(
      absl::StrCat("no answer from ", PeerName(event.call->to)));
  DeliverReply(std::move(reply));
}

void Simulation::DoIo(Event event) {
  Node* const node = Living(event.node);
  if (node == nullptr) {
    // Nobody hears of it.
    if (late_work_.contains(event.node.life)) {
      Trace(event);
      network_.Count("late_work", event.head->GetDescriptor()->name());
      event.work->handler(
          {event.io, Clone(*event.head), std::move(event.payload)});
    }
    return;
  }
  const SimProcess self = event.node;
  if (!Interrupt(Moment::kBeforeIo, self, self.peer, *event.head)) return;
  Trace(event);
  Event done;
  done.kind = Kind::kIoDone;
  done.node = self;
  done.io = event.io;
  IoResult result = event.work->handler(
      {event.io, Clone(*event.head), std::move(event.payload)});
  if (!Interrupt(Moment::kAfterIo, self, self.peer, *event.head)) return;
  done.status = std::move(result.status);
  done.head = std::move(result.head);
  done.payload = std::move(result.payload);
  const IoDelay& delay = event.work->delay;
  Schedule(now_ + Draw(delay.shortest, delay.longest) / 2, std::move(done));
}

void Simulation::FinishIo(Event event) {
  Node* const node = Living(event.node);
  if (node == nullptr) return;
  Trace(event);
  NoteProgress();
  node->ios.erase(event.io);
  IoResult result;
  result.io = event.io;
  result.status = std::move(event.status);
  if (event.head != nullptr) result.head = Clone(*event.head);
  result.payload = std::move(event.payload);
  Outbox out;
  node->core->Completed(std::move(result), NodeTime(*node), &out);
  Empty(node, std::move(out));
}

void Simulation::Tick(const Event& event) {
  Node* const node = Living(event.node);
  if (node == nullptr || node->tick_at != now_) return;
  Trace(event);
  node->tick_at = 0;
  Outbox out;
  node->core->Tick(NodeTime(*node), &out);
  Empty(node, std::move(out));
}

void Simulation::Empty(Node* node, Outbox out) {
  for (const Outbox::NoteItem& note : out.notes) {
    trace_.AddNote(now_, node->self.peer, note.sentence);
    if (watcher_ != nullptr) watcher_->Noted(node->self, note.sentence);
  }
  for (Outbox::ReplyItem& item : out.replies) Answer(node, std::move(item));
  for (Outbox::SendItem& item : out.sends) Send(node, std::move(item));
  for (Outbox::IoItem& item : out.ios) StartIo(node, std::move(item));
  if (out.exited) return Exit(node, out.exit_status);
  ScheduleTick(node);
}

void Simulation::Send(Node* node, Outbox::SendItem item) {
  const SimProcess self = node->self;
  if (item.head == nullptr || node->calls.count(item.call) != 0 ||
      item.deadline <= absl::ZeroDuration() ||
      item.deadline > absl::Hours(24)) {
    return Fail(absl::InternalError(
        absl::StrCat(PeerName(self.peer), " sent call ", item.call,
                     " without a head, with a deadline of ",
                     absl::FormatDuration(item.deadline), ", or twice")));
  }
  if (watcher_ != nullptr) {
    const auto seen = told_.Whole(*item.head);
    if (!seen.ok()) return Fail(seen.status());
    watcher_->Sent(self, item.to, **seen);
  }
  const CallRef call = std::make_shared<Call>();
  call->from = self;
  call->to = item.to;
  call->id = item.call;
  call->head = std::move(item.head);
  call->payload = item.payload;
  call->head_hash = EventTrace::HashOf(call->head.get());
  call->sent_at = now_;
  call->deadline_at = now_ + absl::ToInt64Nanoseconds(item.deadline);
  const auto stuck = stuck_.find({self.peer, item.to});
  if (stuck != stuck_.end() && now_ < stuck->second.until) {
    call->to_life = stuck->second.life;
  }
  node->calls[item.call] = call;
  Event deadline;
  deadline.kind = Kind::kDeadline;
  deadline.node = self;
  deadline.call = call;
  Schedule(call->deadline_at, std::move(deadline));

  const SimNetwork::Fate fate = network_.OfRequest(
      {self.peer, item.to, &call->type(), now_}, item.deadline);
  if (fate.fails_at.has_value()) {
    FailCall(call, *fate.fails_at, "connection lost");
  }
  for (const int64_t at : fate.arrives_at) {
    SendOneRequest(call, item.payload, at);
  }
}

void Simulation::SendOneRequest(const CallRef& call, const BufferChain& payload,
                                int64_t at) {
  Event event;
  event.kind = Kind::kRequest;
  event.node = {call->to, call->to_life};
  event.call = call;
  event.payload = payload;
  event.payload_crc = Crc(payload);
  Schedule(at, std::move(event));
}

BufferChain Simulation::Arrive(const Event& event) {
  if (event.payload.empty()) return {};
  if (Crc(event.payload) != event.payload_crc) {
    const auto& head =
        event.kind == Kind::kRequest ? *event.call->head : *event.head;
    Fail(absl::InternalError(
        absl::StrCat("the payload of a ", head.GetDescriptor()->name(),
                     " was changed after it had been sent")));
  }
  return network_.Recut(event.payload);
}

void Simulation::Answer(Node* node, Outbox::ReplyItem item) {
  const std::string name = PeerName(node->self.peer);
  const auto found = node->incoming.find(item.call);
  if (found == node->incoming.end()) {
    return Fail(absl::InternalError(
        absl::StrCat(name, " answered call ", item.call,
                     ", which it does not have or has answered")));
  }
  const CallRef call = found->second.call;
  const bool again = found->second.again;
  node->incoming.erase(found);
  if (item.status.ok() == (item.head == nullptr)) {
    return Fail(absl::InternalError(
        absl::StrCat(name, " answered ", call->type(),
                     " with neither or both of a reply and an error")));
  }
  if (watcher_ != nullptr) {
    watcher_->Answered(node->self, call->from.peer, *call->head, call->payload,
                       item);
  }
  // Nothing repeats a push under its call: at the first sending of a chunk what
  // is in already was pushed by somebody else. So it has one answer, that to
  // what came first of it; of any other call either copy may be heard.
  const bool is_push = call->type() == "PushRequest";
  if (call->reset || (again && is_push)) return;
  call->refused = is_push && !item.status.ok();
  const SimNetwork::Fate fate =
      network_.OfReply({node->self.peer, call->from.peer, &call->type(), now_});
  if (fate.fails_at.has_value()) {
    FailCall(call, *fate.fails_at, "connection lost");
  }
  const std::shared_ptr<google::protobuf::Message> head = std::move(item.head);
  for (const int64_t at : fate.arrives_at) {
    Event event;
    event.kind = Kind::kReply;
    event.node = call->from;
    event.call = call;
    event.status = item.status;
    event.head = head;
    event.head_hash = EventTrace::HashOf(head.get());
    event.payload = item.payload;
    event.payload_crc = Crc(item.payload);
    Schedule(at, std::move(event));
  }
}

void Simulation::StartIo(Node* node, Outbox::IoItem item) {
  const google::protobuf::Descriptor* const type = item.head->GetDescriptor();
  const auto work = node->works.find(type);
  if (work == node->works.end() || node->ios.count(item.io) != 0) {
    return Fail(absl::InternalError(absl::StrCat(
        PeerName(node->self.peer), " started ", type->name(), " ", item.io,
        ", which nobody does or which has been started")));
  }
  if (watcher_ != nullptr) watcher_->Started(node->self, *item.head);
  node->ios[item.io] = {type, now_};
  Event event;
  event.kind = Kind::kIoEffect;
  event.node = node->self;
  event.io = item.io;
  event.head = std::move(item.head);
  event.payload = std::move(item.payload);
  event.work = work->second;
  const IoDelay& delay = event.work->delay;
  Schedule(now_ + Draw(delay.shortest, delay.longest) / 2, std::move(event));
}

void Simulation::Exit(Node* node, const absl::Status& status) {
  const SimProcess self = node->self;
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
  const absl::Status judged = judge_ == nullptr ? status : judge_(self, status);
  if (!judged.ok()) {
    Fail(absl::AbortedError(
        absl::StrCat(PeerName(self.peer), " exited: ", judged.ToString())));
  }
}

void Simulation::FailCall(const CallRef& call, int64_t at,
                          absl::string_view why, bool has_ended) {
  if (call->settled || at >= call->deadline_at) return;
  Event event;
  event.kind = Kind::kReply;
  event.node = call->from;
  event.call = call;
  event.status =
      absl::UnavailableError(absl::StrCat(PeerName(call->to), ": ", why));
  if (has_ended) MarkEnded(&event.status);
  Schedule(at, std::move(event));
}

void Simulation::CloseIncoming(Node* node) {
  for (const auto& [id, delivery] : node->incoming) {
    FailCall(delivery.call, now_ + network_.DrawDelay(), "connection closed");
  }
  node->incoming.clear();
}

void Simulation::ScheduleTick(Node* node) {
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
  if (node->tick_at > now_ && node->tick_at <= at &&
      node->tick_at + absl::ToInt64Nanoseconds(absl::Milliseconds(2)) >= at) {
    return;  // The one that is due will do.
  }
  node->tick_at = at;
  Event event;
  event.kind = Kind::kTick;
  event.node = node->self;
  Schedule(at, std::move(event));
}

// Memory that is to be read into has no content yet.
bool Simulation::IsEmpty(const Event& event) {
  return event.kind == Kind::kIoEffect &&
         event.head->GetDescriptor() == v1::ReadSlices::descriptor();
}

void Simulation::Trace(const Event& event) {
  const bool is_message = event.call != nullptr;
  const bool is_request = event.kind == Kind::kRequest;
  const PeerId other = !is_message  ? event.node.peer
                       : is_request ? event.call->from.peer
                                    : event.call->to;
  const google::protobuf::Message* const head =
      is_request ? event.call->head.get() : event.head.get();
  trace_.Add({.at = now_,
              .kind = kKindNames[static_cast<int>(event.kind)],
              .node = event.node.peer,
              .from = other,
              .is_message = is_message,
              .head = head,
              .head_hash = is_request   ? event.call->head_hash
                           : is_message ? event.head_hash
                                        : EventTrace::HashOf(head),
              .payload_crc = is_message       ? event.payload_crc
                             : IsEmpty(event) ? 0
                                              : Crc(event.payload),
              .payload_bytes = ChainSize(event.payload),
              .status = event.status});
}

}  // namespace paramd
