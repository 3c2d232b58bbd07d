#include "net/answers_under_way.h"

#include <string>

#include "base/log.h"
#include "net/caller.h"

namespace paramd {
namespace {

// Who reads at all has taken an answer by then.
constexpr absl::Duration kGrace = absl::Seconds(1);

bool IsPowerOfTwo(uint64_t times) { return (times & (times - 1)) == 0; }

}  // namespace

uint64_t AnswersUnderWay::Begin(grpc::ServerContext* call, Time now) {
  answers_[next_] = {.call = call, .since = now};
  return next_++;
}

void AnswersUnderWay::Pin(uint64_t answer, uint64_t bytes) {
  answers_.at(answer).bytes = bytes;
  pinned_bytes_ += bytes;
  pinning_.insert(answer);
}

void AnswersUnderWay::Ended(uint64_t answer) {
  const auto it = answers_.find(answer);
  pinned_bytes_ -= it->second.bytes;
  pinning_.erase(answer);
  if (answer < uncut_from_) --cut_left_;
  answers_.erase(it);
}

void AnswersUnderWay::CancelOldest(Time now) {
  if (pinning_.empty()) return;
  const Answer& oldest = answers_.at(*pinning_.begin());
  if (now - oldest.since < kGrace) return;
  pinning_.erase(pinning_.begin());
  const std::string peer = oldest.call->peer();
  oldest.call->TryCancel();
  if (!IsPowerOfTwo(++given_up_)) return;
  Log(LogLevel::kWarning, "answer given up: its caller does not read it",
      {{"caller", IdentifyCaller("", peer)->address},
       {"times", given_up_},
       {"bytes", oldest.bytes},
       {"pinned", pinned_bytes_}});
}

absl::Duration AnswersUnderWay::Patience() const {
  return answers_.size() - cut_left_ > most_ ? kGrace : longest_;
}

// The oldest first, so that all before one that is cut were.
void AnswersUnderWay::CutUnread(Time now) {
  for (auto it = answers_.lower_bound(uncut_from_); it != answers_.end();
       ++it) {
    const Answer& oldest = it->second;
    if (now - oldest.since < Patience()) return;
    uncut_from_ = it->first + 1;
    ++cut_left_;
    const std::string peer = oldest.call->peer();
    oldest.call->TryCancel();
    if (!IsPowerOfTwo(++cut_)) continue;
    Log(LogLevel::kWarning, "call cut: its caller does not take the answer",
        {{"caller", IdentifyCaller("", peer)->address}, {"times", cut_}});
  }
}

Time AnswersUnderWay::next_deadline() const {
  const auto oldest = answers_.lower_bound(uncut_from_);
  return oldest == answers_.end() ? Time::Never()
                                  : oldest->second.since + Patience();
}

}  // namespace paramd
