#include "worker/core/enlisting.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

#include "proto/job_end.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Of one request; whoever has no answer by then asks again.
constexpr absl::Duration kEnlistDeadline = absl::Seconds(5);
constexpr absl::Duration kEnlistRetry = absl::Milliseconds(200);

// Asked again, it would be refused again.
bool IsForGood(const absl::Status& status, const v1::Refusal& refusal) {
  switch (refusal.reason()) {
    case v1::Refusal::INVALID:
    case v1::Refusal::NOT_ALLOWED:
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
      return true;
    case v1::Refusal::OVER_LIMIT:
      // Else it is a bound of the connection.
      return refusal.retry_after_ms() == 0;
    default:
      return absl::IsUnimplemented(status);
  }
}

}  // namespace

void Enlisting::Start(Time now, Outbox* out) {
  until_ = now + patience_;
  Ask(out);
}

void Enlisting::Ask(Outbox* out) {
  next_ = Time::Never();
  out->Send(PeerId::Coordinator(), ++call_,
            std::make_unique<v1::EnlistRequest>(request_), {}, kEnlistDeadline);
}

void Enlisting::Receive(Message message, Time now, Outbox* out) {
  if (!message.is_reply) {
    out->Refuse(message.call, absl::UnimplementedError("not served"));
    return;
  }
  if (message.call != call_) return;
  const auto* reply = dynamic_cast<const v1::EnlistReply*>(message.head);
  if (!message.status.ok() || reply == nullptr) {
    return OnRefused(message.status, now, out);
  }
  reply_ = *reply;
  out->Exit(absl::OkStatus());
}

void Enlisting::OnRefused(const absl::Status& status, Time now, Outbox* out) {
  const v1::Refusal refusal = RefusalOf(status);
  if (refusal.reason() == v1::Refusal::JOB_FINISHED) {
    out->Exit(EndFor(status));
  } else if (IsForGood(status, refusal)) {
    out->Exit(absl::InvalidArgumentError(status.message()));
  } else {
    why_ = std::string(status.message());
    next_ = now + std::max(kEnlistRetry,
                           absl::Milliseconds(refusal.retry_after_ms()));
  }
}

void Enlisting::Completed(IoResult, Time, Outbox*) {}

void Enlisting::Tick(Time now, Outbox* out) {
  if (now < next_) return;
  if (now >= until_) {
    out->Exit(absl::UnavailableError(
        absl::StrCat("the chief gave no index within ",
                     absl::FormatDuration(patience_), ": ", why_)));
    return;
  }
  Ask(out);
}

}  // namespace paramd
