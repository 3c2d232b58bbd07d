#include "coordinator/core/testing/core_driver.h"

#include "base/check.h"

namespace paramd::testing {

void CoreDriver::Start() {
  Outbox out;
  core_->Start(now_, &out);
  Collect(&out);
}

void CoreDriver::Drain() {
  Outbox out;
  core_->Drain(now_, &out);
  Collect(&out);
}

void CoreDriver::FailBeside(const absl::Status& why) {
  Outbox out;
  core_->Fail(why, now_, &out);
  Collect(&out);
}

CallId CoreDriver::Begin(PeerId from, const google::protobuf::Message& head) {
  Message message;
  message.from = from;
  message.call = next_call_++;
  message.head = &head;
  const CallId call = message.call;
  Receive(std::move(message));
  return call;
}

CoreDriver::Answer CoreDriver::Take(CallId call) {
  const auto found = answers_.find(call);
  CHECK(found != answers_.end(), "the call was answered");
  Answer answer = std::move(found->second);
  answers_.erase(found);
  return answer;
}

void CoreDriver::Reply(const Outbox::SendItem& sent,
                       const google::protobuf::Message& head,
                       BufferChain payload) {
  Message message;
  message.from = sent.to;
  message.call = sent.call;
  message.is_reply = true;
  message.head = &head;
  message.payload = std::move(payload);
  Receive(std::move(message));
}

void CoreDriver::Fail(const Outbox::SendItem& sent, absl::Status status) {
  Message message;
  message.from = sent.to;
  message.call = sent.call;
  message.is_reply = true;
  message.status = std::move(status);
  Receive(std::move(message));
}

void CoreDriver::End(IoId io, absl::Status status, Outbox::Head head,
                     BufferChain payload) {
  IoResult result;
  result.io = io;
  result.status = std::move(status);
  result.head = std::move(head);
  result.payload = std::move(payload);
  Outbox out;
  core_->Completed(std::move(result), now_, &out);
  Collect(&out);
}

void CoreDriver::Advance(absl::Duration duration) {
  const Time end = now_ + duration;
  int64_t ticks = 0;
  while (!exited && core_->next_tick() <= end) {
    CHECK(++ticks <= 100 + duration / absl::Milliseconds(1),
          "a core does not tick all the time");
    now_ = std::max(now_, core_->next_tick());
    Tick();
  }
  now_ = end;
}

void CoreDriver::Tick() {
  Outbox out;
  core_->Tick(now_, &out);
  Collect(&out);
}

bool CoreDriver::HasNote(const std::string& part) const {
  return std::any_of(notes.begin(), notes.end(), [&](const std::string& note) {
    return note.find(part) != std::string::npos;
  });
}

bool CoreDriver::HasWarning(const std::string& part) const {
  return std::any_of(warnings.begin(), warnings.end(),
                     [&](const std::string& warning) {
                       return warning.find(part) != std::string::npos;
                     });
}

void CoreDriver::Receive(Message message) {
  Outbox out;
  core_->Receive(std::move(message), now_, &out);
  Collect(&out);
}

void CoreDriver::Collect(Outbox* out) {
  CHECK(!exited || (out->sends.empty() && out->ios.empty()),
        "a core that has ended wants nothing more");
  for (Outbox::ReplyItem& reply : out->replies) {
    const bool first = answers_
                           .emplace(reply.call, Answer{std::move(reply.status),
                                                       std::move(reply.head)})
                           .second;
    CHECK(first, "a call is answered once");
  }
  for (Outbox::SendItem& item : out->sends) sends.push_back(std::move(item));
  for (Outbox::IoItem& item : out->ios) ios.push_back(std::move(item));
  for (Outbox::NoteItem& note : out->notes) {
    if (note.level == LogLevel::kWarning) warnings.push_back(note.sentence);
    notes.push_back(std::move(note.sentence));
  }
  if (!out->exited || exited) return;
  exited = true;
  exit_status = out->exit_status;
}

}  // namespace paramd::testing
