#include "net/core_host.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/log.h"

namespace paramd {
namespace {

// How often cores are asked whom they wait for, and how often it is said.
constexpr absl::Duration kLookAtWaits = absl::Seconds(1);
constexpr absl::Duration kTellWaits = absl::Seconds(5);
// A checkpoint's file or an evaluation may take longer than that; somebody who
// never comes is waited for longer than this.
constexpr absl::Duration kLongWait = absl::Seconds(30);
constexpr size_t kMostOpenIos = 4096;

IoResult Failed(IoId io, absl::Status status) {
  IoResult result;
  result.io = io;
  result.status = std::move(status);
  return result;
}

}  // namespace

CoreHost::CoreHost(Transport* transport, std::shared_ptr<Mailbox> mailbox)
    : transport_(transport), mailbox_(std::move(mailbox)) {}

void CoreHost::AddCore(PeerId self, Core* core) {
  CHECK(cores_.emplace(self, Hosted{core}).second, "a core is added once");
  order_.push_back(self);
}

void CoreHost::OnExpired(PeerId self, std::function<void(CallId)> f) {
  cores_.at(self).expired = std::move(f);
}

void CoreHost::OnStatus(std::function<void(v1::StatusReply*)> fill) {
  fillers_.push_back(std::move(fill));
}

void CoreHost::FillStatus(v1::StatusReply* status) const {
  for (const auto& fill : fillers_) fill(status);
  for (const auto& [self, hosted] : cores_) {
    if (hosted.exited || hosted.wait.whom.empty()) continue;
    v1::Wait* wait = status->add_waits();
    wait->set_who(PeerName(self));
    wait->set_whom(hosted.wait.whom);
    wait->set_since_ms(static_cast<uint64_t>(
        absl::ToInt64Milliseconds(looked_at_waits_ - hosted.wait.since)));
  }
}

bool CoreHost::Serves(PeerId peer) const {
  const auto it = cores_.find(peer);
  return it != cores_.end() && !it->second.exited;
}

void CoreHost::Start(Time now) {
  for (const PeerId self : order_) {
    if (ended_) return;
    if (cores_.at(self).exited) continue;  // Another one has failed.
    Outbox out;
    cores_.at(self).core->Start(now, &out);
    Empty(self, &out, now);
  }
}

CoreHost::Event CoreHost::Event::Request(PeerId from, PeerId to, CallId id,
                                         Outbox::Head head,
                                         BufferChain payload) {
  return {to,
          Message{.from = from,
                  .call = id,
                  .is_reply = false,
                  .status = absl::OkStatus(),
                  .head = nullptr,
                  .payload = std::move(payload)},
          std::move(head),
          /*is_completion=*/false, IoResult()};
}

CoreHost::Event CoreHost::Event::Completion(PeerId to, IoResult result) {
  Event event;
  event.to = to;
  event.is_completion = true;
  event.result = std::move(result);
  return event;
}

CallId CoreHost::Request(PeerId from, PeerId to, Outbox::Head head,
                         BufferChain payload) {
  const CallId id = next_id_++;
  events_.push_back(
      Event::Request(from, to, id, std::move(head), std::move(payload)));
  return id;
}

void CoreHost::Ask(PeerId to, Outbox::Head head, absl::Duration deadline,
                   Runtime::Answer done, Time now) {
  const CallId id = next_id_++;
  calls_[id] = {PeerId(),       id,       to,
                now + deadline, deadline, /*outside=*/false,
                std::move(done)};
  deadlines_.insert({now + deadline, id});
  if (!Serves(to)) {
    return Replied(
        id, absl::UnavailableError(absl::StrCat(PeerName(to), " is not here")),
        nullptr, {});
  }
  events_.push_back(Event::Request(PeerId(), to, id, std::move(head), {}));
}

void CoreHost::Expired(PeerId to, CallId id) {
  const auto core = cores_.find(to);
  if (core != cores_.end() && core->second.expired != nullptr) {
    core->second.expired(id);
  }
}

void CoreHost::Replied(CallId id, absl::Status status, Outbox::Head head,
                       BufferChain payload) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  if (it->second.asked != nullptr) {
    const Runtime::Answer asked = std::move(it->second.asked);
    deadlines_.erase({it->second.deadline, id});
    calls_.erase(it);
    return asked(status, head.get());
  }
  Event event;
  event.to = it->second.from;
  event.message.from = it->second.to;
  event.message.call = it->second.call;
  event.message.is_reply = true;
  event.message.status = std::move(status);
  event.message.in_shared_memory = share_memory_.contains(it->second.to);
  if (event.message.status.ok()) {
    event.head = std::move(head);
    event.message.payload = std::move(payload);
  }
  deadlines_.erase({it->second.deadline, id});
  calls_.erase(it);
  events_.push_back(std::move(event));
}

void CoreHost::SharesMemory(PeerId peer, bool shares) {
  if (shares) {
    share_memory_.insert(peer);
  } else {
    share_memory_.erase(peer);
  }
}

bool CoreHost::Turn(Time now) {
  bool any = Expire(now);
  any |= EndDrain(now);
  any |= TickDue(now);
  if (events_.empty() || ended_) return any;
  Event event = std::move(events_.front());
  events_.pop_front();
  Deliver(std::move(event), now);
  return true;
}

Time CoreHost::next_wakeup() const {
  Time next = drain_deadline_;
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  for (const auto& [self, hosted] : cores_) {
    if (!hosted.exited) next = std::min(next, hosted.core->next_tick());
  }
  return next;
}

void CoreHost::Drain(absl::Status status, absl::Duration timeout, Time now) {
  if (draining_ || ended_) return;
  draining_ = true;
  if (!failed_) end_status_ = std::move(status);
  drain_deadline_ = now + timeout;
  for (const PeerId self : order_) {
    const Hosted& hosted = cores_.at(self);
    if (hosted.exited || ended_) continue;
    Outbox out;
    hosted.core->Drain(now, &out);
    Empty(self, &out, now);
  }
}

bool CoreHost::EndDrain(Time now) {
  if (now < drain_deadline_) return false;
  drain_deadline_ = Time::Never();
  for (const auto& [self, hosted] : cores_) {
    if (hosted.exited) continue;
    Log(LogLevel::kWarning, "not drained in time",
        {{"core", PeerName(self)}, {"for", hosted.core->overdue(now)}});
  }
  End(end_status_);
  return true;
}

void CoreHost::End(absl::Status status) {
  if (ended_) return;
  ended_ = true;
  end_status_ = std::move(status);
}

void CoreHost::Deliver(Event event, Time now) {
  const Hosted& hosted = cores_.at(event.to);
  if (hosted.exited) {
    if (!event.is_completion && !event.message.is_reply) {
      const absl::Status gone = absl::UnavailableError(
          absl::StrCat(PeerName(event.to), " has ended"));
      if (calls_.contains(event.message.call)) {
        Replied(event.message.call, gone, nullptr, {});
      } else if (transport_ != nullptr) {
        transport_->Reply({event.message.call, gone, nullptr, {}});
      }
    }
    return;
  }
  Outbox out;
  if (event.is_completion) {
    hosted.core->Completed(std::move(event.result), now, &out);
  } else {
    event.message.head = event.head.get();
    hosted.core->Receive(std::move(event.message), now, &out);
  }
  Empty(event.to, &out, now);
}

void CoreHost::Empty(PeerId self, Outbox* out, Time now) {
  for (Outbox::ReplyItem& reply : out->replies) {
    const auto it = calls_.find(reply.call);
    if (it != calls_.end()) {
      Replied(reply.call, std::move(reply.status), std::move(reply.head),
              std::move(reply.payload));
    } else if (transport_ != nullptr) {
      transport_->Reply(std::move(reply));
    }
  }
  if (out->cancels_oldest_reply && transport_ != nullptr) {
    transport_->CancelOldestReply();
  }
  for (Outbox::SendItem& send : out->sends) {
    EmptySend(self, std::move(send), now);
  }
  for (Outbox::IoItem& io : out->ios) BeginIo(self, std::move(io));
  for (const Outbox::NoteItem& note : out->notes) {
    LogSentence(note.level, note.sentence, note.said,
                {{"core", PeerName(self)}});
  }
  if (out->exited) Exited(self, std::move(out->exit_status), now);
}

void CoreHost::EmptySend(PeerId self, Outbox::SendItem item, Time now) {
  const CallId id = next_id_++;
  const PeerId to = item.to;
  const bool here = cores_.contains(to);
  const Time deadline = now + item.deadline;
  calls_[id] = {self, item.call, to, deadline, item.deadline, !here};
  deadlines_.insert({deadline, id});
  if (!here && transport_ != nullptr) {
    transport_->Send(id, self, std::move(item));
    return;
  }
  if (!Serves(to)) {
    Replied(id,
            absl::UnavailableError(absl::StrCat(
                PeerName(to), here ? " has ended" : " is not a known peer")),
            nullptr, {});
    return;
  }
  events_.push_back(Event::Request(self, to, id, std::move(item.head),
                                   std::move(item.payload)));
}

void CoreHost::BeginIo(PeerId self, Outbox::IoItem item) {
  const IoId io = item.io;
  const google::protobuf::Descriptor* const type = item.head->GetDescriptor();
  const auto handler = io_handlers_.find(type);
  const bool is_known = handler != io_handlers_.end();
  if (!is_known || open_ios_.size() >= kMostOpenIos) {
    const absl::Status why =
        is_known ? absl::ResourceExhaustedError(
                       absl::StrCat(kMostOpenIos, " works are under way"))
                 : absl::UnimplementedError(
                       absl::StrCat("this process does not do ", type->name()));
    events_.push_back(Event::Completion(self, Failed(io, why)));
    return;
  }
  CHECK(open_ios_.insert({self, io}).second, "an open work has its own id");
  // `this` is used on the loop thread only.
  handler->second(std::move(item), [this, self, io,
                                    mailbox = mailbox_](IoResult result) {
    result.io = io;
    // std::function copies what it holds, an IoResult cannot be copied.
    auto held = std::make_shared<IoResult>(std::move(result));
    mailbox->Post([this, self, held] { CompleteIo(self, std::move(*held)); });
  });
}

void CoreHost::CompleteIo(PeerId self, IoResult result) {
  CHECK(open_ios_.erase({self, result.io}) == 1, "a work ends once");
  events_.push_back(Event::Completion(self, std::move(result)));
}

void CoreHost::Exited(PeerId self, absl::Status status, Time now) {
  cores_.at(self).exited = true;
  if (!status.ok() && !failed_ && !ended_) {
    failed_ = true;
    end_status_ = std::move(status);
    TellFailure(now);
  }
  const bool all_have =
      std::all_of(cores_.begin(), cores_.end(),
                  [](const auto& hosted) { return hosted.second.exited; });
  if (all_have) End(end_status_);
}

void CoreHost::TellFailure(Time now) {
  if (transport_ == nullptr || !transport_->HasPeers()) {
    return End(end_status_);
  }
  for (const PeerId self : order_) {
    const Hosted& hosted = cores_.at(self);
    if (hosted.exited || ended_) continue;
    Outbox out;
    hosted.core->Fail(end_status_, now, &out);
    Empty(self, &out, now);
  }
}

bool CoreHost::Expire(Time now) {
  bool any = false;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const CallId id = deadlines_.begin()->second;
    const OpenCall& call = calls_.at(id);
    if (call.outside && transport_ != nullptr) transport_->Cancel(id);
    if (!call.outside) Expired(call.to, id);
    Replied(id,
            absl::DeadlineExceededError(
                absl::StrCat(PeerName(call.to), " did not answer within ",
                             absl::FormatDuration(call.patience))),
            nullptr, {});
    any = true;
  }
  return any;
}

bool CoreHost::TickDue(Time now) {
  bool any = false;
  for (const PeerId self : order_) {
    Hosted& hosted = cores_.at(self);
    if (ended_) return any;
    if (hosted.exited || hosted.core->next_tick() > now) continue;
    Outbox out;
    hosted.core->Tick(now, &out);
    Empty(self, &out, now);
    any = true;
  }
  return any;
}

Time CoreHost::TellWaits(Time now) {
  if (now < next_look_at_waits_) return next_look_at_waits_;
  next_look_at_waits_ = now + kLookAtWaits;
  looked_at_waits_ = now;
  for (auto& [self, hosted] : cores_) {
    if (hosted.exited) continue;
    Wait& wait = hosted.wait;
    std::string whom = hosted.core->overdue(now);
    if (whom != wait.whom) wait = {std::move(whom), now, now};
    if (wait.whom.empty() || now - wait.said < kTellWaits) continue;
    wait.said = now;
    Log(now - wait.since < kLongWait ? LogLevel::kInfo : LogLevel::kWarning,
        "waiting",
        {{"core", PeerName(self)},
         {"for", wait.whom},
         {"since", absl::FormatDuration(
                       absl::Trunc(now - wait.since, absl::Seconds(1)))}});
  }
  return next_look_at_waits_;
}

}  // namespace paramd
