#include "worker/collective/round_link.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"

namespace paramd {

// ---- what the chief is told and says ----------------------------------------

void RoundLink::TellLocked() {
  has_news_ = true;
  news_.NotifyAll();
}

void RoundLink::WaitsLocked(bool waits) {
  if (member_.waits() == waits) return;
  member_.Wait(waits);
  TellLocked();
}

v1::BeatRequest RoundLink::Say() {
  const MutexLock lock(&mutex_);
  has_news_ = false;
  return member_.said();
}

void RoundLink::Hear(const v1::BeatReply& reply) {
  const MutexLock lock(&mutex_);
  const bool was_in_one = member_.is_in_one();
  const bool over = member_.Hear(reply);
  if (over) DropLinksLocked();
  if (over || was_in_one != member_.is_in_one()) TellLocked();
  missing_.assign(reply.missing().begin(), reply.missing().end());
  finished_ |= reply.finished();
  if (!reply.gave_up().empty()) {
    failure_.Update(absl::DeadlineExceededError(reply.gave_up()));
    LeaveLocked();  // Whoever sums with one that is silent waits no more.
  }
  changed_.NotifyAll();
}

void RoundLink::Fail(absl::Status status) {
  const MutexLock lock(&mutex_);
  failure_.Update(status);
  LeaveLocked();
  changed_.NotifyAll();
  news_.NotifyAll();
}

bool RoundLink::stands_before_a_step() const {
  const MutexLock lock(&mutex_);
  return member_.said().has_next();
}

bool RoundLink::urgent() const {
  const MutexLock lock(&mutex_);
  return PausesLocked();
}

void RoundLink::AwaitNews(absl::Duration most) {
  MutexLock lock(&mutex_);
  if (!has_news_ && failure_.ok()) news_.WaitFor(&mutex_, most);
}

std::vector<v1::BeatReply::Missing> RoundLink::missing() const {
  const MutexLock lock(&mutex_);
  return PausesLocked() ? missing_ : std::vector<v1::BeatReply::Missing>();
}

uint64_t RoundLink::standing_in() const {
  const MutexLock lock(&mutex_);
  const v1::BeatRequest& said = member_.said();
  const bool stands = said.ended() || (said.has_next() && linked_ != nullptr);
  return stands ? member_.round().round() : 0;
}

bool RoundLink::IsIn(uint64_t round) const {
  const MutexLock lock(&mutex_);
  return failure_.ok() && member_.round().round() == round;
}

bool RoundLink::finished() const {
  const MutexLock lock(&mutex_);
  return finished_;
}

void RoundLink::SetModel(uint32_t crc32c) {
  const MutexLock lock(&mutex_);
  member_.SetModel(crc32c);
}

// ---- rounds -----------------------------------------------------------------

absl::Status RoundLink::WhyStoppedLocked() const {
  if (!failure_.ok()) return failure_;
  return interrupted_ ? absl::CancelledError("the step was interrupted")
                      : absl::OkStatus();
}

bool RoundLink::PausesLocked() const {
  return member_.waits() || (member_.is_in_one() && !together_);
}

void RoundLink::LeaveLocked() {
  if (!member_.is_in_one()) return;
  member_.Leave();
  DropLinksLocked();
  TellLocked();
}

void RoundLink::DropLinksLocked() {
  if (linked_ != nullptr) linked_->Abort();
  linked_.reset();
  together_ = false;
  changed_.NotifyAll();
}

absl::Status RoundLink::AwaitRoundLocked() {
  while (!member_.is_in_one() && !finished_ && WhyStoppedLocked().ok()) {
    WaitsLocked(true);
    changed_.Wait(&mutex_);
  }
  WaitsLocked(false);
  if (!member_.is_in_one() && finished_ && WhyStoppedLocked().ok()) {
    return absl::AbortedError("the chief has finished the job");
  }
  return WhyStoppedLocked();
}

absl::StatusOr<RoundLink::Joined> RoundLink::Join(
    const v1::StepPosition& step) {
  {
    const MutexLock lock(&mutex_);
    member_.StandBefore(step);
  }
  while (true) {
    v1::BeatReply round;
    size_t rank = 0;
    {
      MutexLock lock(&mutex_);
      RETURN_IF_ERROR(AwaitRoundLocked());
      round = member_.round();
      if (together_) {
        Joined joined;
        joined.collective = linked_;
        for (const uint32_t worker : round.workers()) {
          joined.names.push_back(absl::StrCat("worker-", worker));
        }
        return joined;
      }
      rank = member_.rank();
      RETURN_IF_ERROR(member_.CheckPlace());
    }
    RETURN_IF_ERROR(Link(round, rank));
  }
}

// OK also if the round is over meanwhile.
absl::Status RoundLink::Link(const v1::BeatReply& round, size_t rank) {
  const size_t size = round.workers_size();
  ASSIGN_OR_RETURN(std::shared_ptr<LinkedCollective> made, make_(rank, size));
  std::vector<std::vector<std::string>> links;
  {
    MutexLock lock(&mutex_);
    if (member_.round().round() != round.round()) return absl::OkStatus();
    linked_ = made;
    member_.Link(made->links());
    TellLocked();
    while (linked_ == made && WhyStoppedLocked().ok() &&
           !member_.all_have_linked()) {
      changed_.Wait(&mutex_);
    }
    RETURN_IF_ERROR(WhyStoppedLocked());
    if (linked_ != made) return absl::OkStatus();
    for (const v1::BeatReply::Links& one : member_.round().links()) {
      links.emplace_back(one.links().begin(), one.links().end());
    }
  }
  const absl::Status connected = made->Connect(links);
  if (!connected.ok()) {
    Log(LogLevel::kInfo, "a worker could not be reached",
        {{"round", round.round()}, {"why", connected.message()}});
  }
  const MutexLock lock(&mutex_);
  if (linked_ != made) return absl::OkStatus();
  if (!connected.ok()) {
    LeaveLocked();
    return absl::OkStatus();
  }
  together_ = true;
  Log(LogLevel::kInfo, "all workers of the round are here",
      {{"round", round.round()}, {"workers", size}});
  return absl::OkStatus();
}

absl::StatusOr<RoundLink::Content> RoundLink::AwaitContent() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(AwaitRoundLocked());
  Content content;
  content.round = member_.round().round();
  content.source = member_.round().source();
  content.is_own = content.source == member_.said().worker();
  return content;
}

absl::Status RoundLink::AwaitEnd() {
  MutexLock lock(&mutex_);
  member_.StandAtTheEnd();
  while (!finished_ && WhyStoppedLocked().ok()) {
    WaitsLocked(true);
    changed_.Wait(&mutex_);
  }
  return finished_ ? absl::OkStatus() : WhyStoppedLocked();
}

void RoundLink::Expect() {
  const MutexLock lock(&mutex_);
  interrupted_ = false;
}

void RoundLink::Interrupt() {
  const MutexLock lock(&mutex_);
  interrupted_ = true;
  LeaveLocked();
  changed_.NotifyAll();
}

void RoundLink::Made(const std::vector<double>& figures) {
  const MutexLock lock(&mutex_);
  member_.Made(figures);
}

absl::Status RoundLink::AwaitVerdict(const LinkedCollective* failed,
                                     bool has_sums,
                                     std::vector<double>* figures) {
  MutexLock lock(&mutex_);
  // It may be another round already, which was told meanwhile.
  if (linked_.get() == failed) LeaveLocked();
  RETURN_IF_ERROR(AwaitRoundLocked());
  switch (member_.VerdictOf(has_sums)) {
    case RoundMember::Verdict::kMakeAgain:
      return absl::UnavailableError("another worker was lost");
    case RoundMember::Verdict::kElsewhere:
      return member_.CheckPlace();
    case RoundMember::Verdict::kIsMade:
      break;
  }
  const auto& made = member_.round().figures();
  figures->assign(made.begin(), made.end());
  member_.Made(*figures);
  return absl::OkStatus();
}

}  // namespace paramd
