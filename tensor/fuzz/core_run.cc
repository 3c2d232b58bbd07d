#include "tensor/fuzz/core_run.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "tensor/fuzz/mutate_message.h"

namespace paramd::fuzz {
namespace {

// Ticks that a core may want at one time, one behind the other.
constexpr int kMostTicks = 1000;

// With the details that a refusal carries, if it is one.
absl::Status Failure(const Event& event) {
  const auto code = static_cast<absl::StatusCode>(1 + event.who % 16);
  absl::Status failure(code, "it failed");
  if (event.type == "Refusal") {
    failure.SetPayload("type.googleapis.com/paramd.v1.Refusal",
                       absl::Cord(event.head));
  }
  return failure;
}

BufferChain PayloadOf(const Event& event) {
  if (event.payload.empty()) return {};
  const Buffer whole = Buffer::Copy(event.payload);
  const size_t cut = event.which % (event.payload.size() + 1);
  // In two pieces, as a network may cut it.
  BufferChain chain;
  if (cut > 0) chain.push_back(whole.Part(0, cut));
  if (cut < whole.size()) chain.push_back(whole.Part(cut, whole.size() - cut));
  return chain;
}

Head HeadOf(absl::string_view type, const Event& event) {
  Head head(NewMessage(type).release());
  if (head != nullptr && !head->ParseFromString(event.head)) return nullptr;
  return head;
}

}  // namespace

PeerId PeerOf(uint8_t who) {
  const uint32_t number = who % 24;
  if (number < 8) return PeerId::Worker(number);
  if (number < 16) return PeerId::Ps(number - 8);
  return number < 20 ? PeerId::Coordinator() : PeerId{};
}

uint8_t NumberOf(PeerId peer) {
  switch (peer.kind) {
    case PeerId::Kind::kWorker:
      return static_cast<uint8_t>(peer.index % 8);
    case PeerId::Kind::kPs:
      return static_cast<uint8_t>(8 + peer.index % 8);
    case PeerId::Kind::kCoordinator:
      return 16;
    case PeerId::Kind::kStage:
    case PeerId::Kind::kOutside:
      break;
  }
  return 20;
}

void CoreRun::Run(absl::string_view bytes) {
  Start();
  for (const Event& event : ReadEvents(bytes)) Deliver(event);
}

void CoreRun::Start() {
  Outbox out;
  core_.Start(now_, &out);
  Collect(&out);
}

void CoreRun::Deliver(const Event& event) {
  if (exited_) return;
  switch (event.kind) {
    case Event::Kind::kCall:
      return Call(event);
    case Event::Kind::kAnswer:
    case Event::Kind::kFail:
      return Answer(event);
    case Event::Kind::kDone:
    case Event::Kind::kUndone:
      return EndWork(event);
    case Event::Kind::kTime:
      return PassTime(event);
    case Event::Kind::kDrain: {
      Outbox out;
      core_.Drain(now_, &out);
      return Collect(&out);
    }
  }
}

void CoreRun::Call(const Event& event) {
  absl::string_view method = event.type;
  if (!absl::ConsumeSuffix(&method, "Request") ||
      std::find(methods_.begin(), methods_.end(), method) == methods_.end()) {
    return;
  }
  const Head head = HeadOf(event.type, event);
  if (head == nullptr) return;
  Message message;
  message.from = PeerOf(event.who);
  message.call = next_call_++;
  message.head = head.get();
  message.payload = PayloadOf(event);
  open_.insert(message.call);
  Receive(message);
}

void CoreRun::Answer(const Event& event) {
  if (sends_.empty()) return;
  const size_t which = event.which % sends_.size();
  absl::string_view method = sends_[which].head->GetDescriptor()->name();
  CHECK(absl::ConsumeSuffix(&method, "Request"), "a core sends requests");
  Message message;
  message.from = sends_[which].to;
  message.call = sends_[which].call;
  message.is_reply = true;
  message.status = Failure(event);
  Head head;
  if (event.kind == Event::Kind::kAnswer) {
    head = HeadOf(absl::StrCat(method, "Reply"), event);
    if (head == nullptr) return;
    message.status = absl::OkStatus();
    message.payload = PayloadOf(event);
  }
  message.head = head.get();
  sends_.erase(sends_.begin() + static_cast<int64_t>(which));
  Receive(message);
}

void CoreRun::EndWork(const Event& event) {
  if (ios_.empty()) return;
  const size_t which = event.which % ios_.size();
  IoResult result;
  result.io = ios_[which].io;
  if (event.kind == Event::Kind::kUndone) {
    result.status = Failure(event);
  } else if (work_ != nullptr && work_(ios_[which], &result)) {
    // It is filled.
  } else if (const std::string wanted = absl::StrCat(
                 ios_[which].head->GetDescriptor()->name(), "Result");
             NewMessage(wanted) != nullptr) {
    // Whoever does the work answers in its type.
    result.head = HeadOf(wanted, event);
    if (result.head == nullptr) return;
    result.payload = PayloadOf(event);
  }
  ios_.erase(ios_.begin() + static_cast<int64_t>(which));
  Outbox out;
  core_.Completed(std::move(result), now_, &out);
  Collect(&out);
}

void CoreRun::PassTime(const Event& event) {
  const Time next = core_.next_tick();
  if (event.who % 80 < 64) {
    now_ = now_ + absl::Microseconds(int64_t{1} << (event.who % 40));
  } else if (next != Time::Never()) {
    now_ = std::max(now_, next);
  }
  for (int ticks = 0; !exited_ && core_.next_tick() <= now_; ++ticks) {
    CHECK(ticks < kMostTicks, "a core does not tick all the time");
    Tick();
  }
}

void CoreRun::Tick() {
  Outbox out;
  core_.Tick(now_, &out);
  Collect(&out);
}

void CoreRun::Receive(const Message& message) {
  Outbox out;
  core_.Receive(message, now_, &out);
  Collect(&out);
}

void CoreRun::Collect(Outbox* out) {
  for (Outbox::ReplyItem& reply : out->replies) {
    CHECK(open_.erase(reply.call) == 1, "a call is answered once");
    CHECK(reply.status.ok() == (reply.head != nullptr),
          "a call is answered or refused");
    if (!reply.status.ok()) CheckRefusal(reply.status);
    if (reply.status.ok()) last_reply_ = std::move(reply.head);
  }
  CHECK(open_.size() <= kMostOpen, "calls that wait are bounded");
  for (Outbox::SendItem& send : out->sends) {
    CHECK(send.deadline > absl::ZeroDuration(), "a call has a deadline");
    CHECK(std::none_of(sends_.begin(), sends_.end(),
                       [&](const Outbox::SendItem& open) {
                         return open.call == send.call;
                       }),
          "open calls have names of their own");
    sends_.push_back(std::move(send));
  }
  for (Outbox::IoItem& io : out->ios) ios_.push_back(std::move(io));
  for (const Outbox::NoteItem& note : out->notes) {
    CHECK(!note.sentence.empty(), "a note says something");
  }
  exited_ = exited_ || out->exited;
  if (out->exited && !out->exit_status.ok()) CheckRefusal(out->exit_status);
}

}  // namespace paramd::fuzz
