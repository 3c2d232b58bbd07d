#include "net/traced_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "base/clock.h"
#include "net/method_table.h"
#include "proto/paramd/v1/compute.pb.h"

namespace paramd {
namespace {

using Proto = ::google::protobuf::Message;

// An event has no more than that, of those that come by the hundred.
constexpr size_t kMostNumbers = 32;

// "Push" of a request, "PushReply" of an answer. Lives as long as the process.
const char* NameOf(const Proto* head) {
  if (head == nullptr) return "refusal";
  const auto* const type = head->GetDescriptor();
  const Method* const method = MethodTable::Get().OfRequest(type);
  return method != nullptr ? method->name.c_str() : type->name().c_str();
}

bool HasNumber(const ChromeTrace::Event& event, absl::string_view name) {
  return std::any_of(
      event.numbers.begin(), event.numbers.end(),
      [&](const ChromeTrace::Number& number) { return number.name == name; });
}

void AddNumber(const char* name, uint64_t value, ChromeTrace::Event* event) {
  if (event->numbers.size() < kMostNumbers) {
    event->numbers.push_back({name, value});
  }
}

}  // namespace

void AddChunk(const TracedPush& push, ChromeTrace::Phase phase,
              ChromeTrace::Event* event) {
  event->flows.push_back({push.flow, phase});
  // Of an answer that came in the same turn nothing is said but its flow.
  const bool is_first = !HasNumber(*event, "push");
  bool is_block = false;
  for (const auto& [name, value] : push.numbers) {
    if (name == absl::string_view("slice")) {
      // With its block, or not at all.
      if (event->numbers.size() + 2 > kMostNumbers) return;
      is_block = true;
    }
    if (is_first || is_block) AddNumber(name, value, event);
  }
}

bool TracedCore::IsRecording() {
  if (trace_ == nullptr) return false;
  if (trace_->is_recording()) return true;
  if (!sent_.empty()) sent_.clear();
  if (!asked_.empty()) asked_.clear();
  if (!started_.empty()) started_.clear();
  return false;
}

TracedCore::Turn TracedCore::Begin(const char* name, const Outbox& out) {
  Turn turn;
  turn.event.lane = ChromeTrace::Lane::kTurns;
  turn.event.name = name;
  turn.sends = out.sends.size();
  turn.replies = out.replies.size();
  turn.event.begin = MonotonicNow();
  return turn;
}

void TracedCore::Describe(const Message& message, Turn* turn) {
  if (message.is_reply) {
    const auto sent = sent_.find(message.call);
    if (sent == sent_.end()) return;
    const bool is_answered = message.status.ok();
    turn->event.flows.push_back(
        {sent->second,
         is_answered ? ChromeTrace::Phase::kEnd : ChromeTrace::Phase::kStep});
    // One that was refused, or had no answer, is sent again.
    if (is_answered) started_.erase(sent->second);
    sent_.erase(sent);
    return;
  }
  const absl::optional<TracedPush> push = TracedPushOf(*message.head);
  if (!push.has_value()) return;
  AddChunk(*push, ChromeTrace::Phase::kStep, &turn->event);
  turn->asked = message.call;
  asked_[message.call] = push->flow;
}

void TracedCore::FollowSends(const Outbox& out, Turn* turn) {
  for (size_t i = turn->sends; i < out.sends.size(); ++i) {
    const Outbox::SendItem& send = out.sends[i];
    if (send.head == nullptr) continue;
    const absl::optional<TracedPush> push = TracedPushOf(*send.head);
    if (!push.has_value()) continue;
    const bool is_first = started_.insert(push->flow).second;
    AddChunk(*push,
             is_first ? ChromeTrace::Phase::kStart : ChromeTrace::Phase::kStep,
             &turn->event);
    sent_[send.call] = push->flow;
  }
}

void TracedCore::FollowReplies(const Outbox& out, Turn* turn) {
  for (size_t i = turn->replies; i < out.replies.size(); ++i) {
    const auto asked = asked_.find(out.replies[i].call);
    if (asked == asked_.end()) continue;
    if (turn->asked != asked->first) {
      turn->event.flows.push_back({asked->second, ChromeTrace::Phase::kStep});
    }
    asked_.erase(asked);
  }
}

void TracedCore::End(Turn turn, const Outbox& out) {
  turn.event.end = MonotonicNow();
  FollowSends(out, &turn);
  FollowReplies(out, &turn);
  trace_->AddRecorded(std::move(turn.event));
}

void TracedCore::Receive(Message message, Time now, Outbox* out) {
  if (!IsRecording()) return core_->Receive(std::move(message), now, out);
  Turn turn = Begin(NameOf(message.head), *out);
  Describe(message, &turn);
  core_->Receive(std::move(message), now, out);
  End(std::move(turn), *out);
}

void TracedCore::Completed(IoResult result, Time now, Outbox* out) {
  if (!IsRecording()) return core_->Completed(std::move(result), now, out);
  Turn turn = Begin(NameOf(result.head.get()), *out);
  const auto* const layers =
      result.head == nullptr
          ? nullptr
          : google::protobuf::DynamicCastToGenerated<v1::TakeGradientsResult>(
                result.head.get());
  if (layers != nullptr) {
    for (const uint32_t variable : layers->variables()) {
      AddNumber("variable", variable, &turn.event);
    }
  }
  core_->Completed(std::move(result), now, out);
  End(std::move(turn), *out);
}

void TracedCore::Tick(Time now, Outbox* out) {
  if (!IsRecording()) return core_->Tick(now, out);
  Turn turn = Begin("Tick", *out);
  core_->Tick(now, out);
  turn.event.end = MonotonicNow();
  FollowSends(*out, &turn);
  FollowReplies(*out, &turn);
  if (!turn.event.flows.empty()) trace_->AddRecorded(std::move(turn.event));
}

}  // namespace paramd
