#include "worker/collective/round_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "worker/collective/mirror_exchange.h"

namespace paramd {

RoundExchange::RoundExchange(Options options)
    : options_(std::move(options)),
      member_(options_.worker, options_.incarnation) {}

RoundExchange::~RoundExchange() { Stop(); }

// ---- what the chief is told and says ----------------------------------------

void RoundExchange::TellLocked() {
  has_news_ = true;
  news_.NotifyAll();
}

void RoundExchange::WaitsLocked(bool waits) {
  if (member_.waits() == waits) return;
  member_.Wait(waits);
  TellLocked();
}

v1::BeatRequest RoundExchange::Say() {
  const MutexLock lock(&mutex_);
  has_news_ = false;
  return member_.said();
}

void RoundExchange::Hear(const v1::BeatReply& reply) {
  const MutexLock lock(&mutex_);
  const bool was_in_one = member_.is_in_one();
  const bool over = member_.Hear(reply);
  if (over) DropLinksLocked();
  if (over || was_in_one != member_.is_in_one()) TellLocked();
  missing_.assign(reply.missing().begin(), reply.missing().end());
  finished_ |= reply.finished();
  if (!reply.gave_up().empty()) {
    failure_.Update(absl::DeadlineExceededError(reply.gave_up()));
  }
  changed_.NotifyAll();
}

void RoundExchange::Fail(absl::Status status) {
  const MutexLock lock(&mutex_);
  failure_.Update(status);
  LeaveLocked();
  changed_.NotifyAll();
  news_.NotifyAll();
}

bool RoundExchange::urgent() const {
  const MutexLock lock(&mutex_);
  return PausesLocked();
}

void RoundExchange::AwaitNews(absl::Duration most) {
  MutexLock lock(&mutex_);
  if (!has_news_ && failure_.ok()) news_.WaitFor(&mutex_, most);
}

std::vector<v1::BeatReply::Missing> RoundExchange::missing() const {
  const MutexLock lock(&mutex_);
  return PausesLocked() ? missing_ : std::vector<v1::BeatReply::Missing>();
}

uint64_t RoundExchange::standing_in() const {
  const MutexLock lock(&mutex_);
  const v1::BeatRequest& said = member_.said();
  const bool stands = said.ended() || (said.has_next() && linked_ != nullptr);
  return stands ? member_.round().round() : 0;
}

bool RoundExchange::IsIn(uint64_t round) const {
  const MutexLock lock(&mutex_);
  return failure_.ok() && member_.round().round() == round;
}

bool RoundExchange::finished() const {
  const MutexLock lock(&mutex_);
  return finished_;
}

void RoundExchange::SetModel(uint32_t crc32c) {
  const MutexLock lock(&mutex_);
  member_.SetModel(crc32c);
}

// ---- rounds -----------------------------------------------------------------

absl::Status RoundExchange::WhyStoppedLocked() const {
  if (!failure_.ok()) return failure_;
  return interrupted_ ? absl::CancelledError("the step was interrupted")
                      : absl::OkStatus();
}

bool RoundExchange::PausesLocked() const {
  return member_.waits() || (member_.is_in_one() && !together_);
}

void RoundExchange::LeaveLocked() {
  if (!member_.is_in_one()) return;
  member_.Leave();
  DropLinksLocked();
  TellLocked();
}

void RoundExchange::DropLinksLocked() {
  if (linked_ != nullptr) linked_->Abort();
  linked_.reset();
  together_ = false;
  changed_.NotifyAll();
}

absl::Status RoundExchange::AwaitRoundLocked() {
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

absl::Status RoundExchange::Join() {
  while (true) {
    v1::BeatReply round;
    {
      MutexLock lock(&mutex_);
      RETURN_IF_ERROR(AwaitRoundLocked());
      if (together_) {
        collective_ = linked_;
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(member_.CheckPlace());
      round = member_.round();
    }
    RETURN_IF_ERROR(Link(round));
  }
}

// OK also if the round is over meanwhile.
absl::Status RoundExchange::Link(const v1::BeatReply& round) {
  const size_t size = round.workers_size();
  const size_t rank =
      std::find(round.workers().begin(), round.workers().end(),
                options_.worker) -
      round.workers().begin();
  ASSIGN_OR_RETURN(std::shared_ptr<LinkedCollective> made,
                   options_.make(rank, size));
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
  steps_ = 0;
  names_.clear();
  for (const uint32_t worker : round.workers()) {
    names_.push_back(absl::StrCat("worker-", worker));
  }
  Log(LogLevel::kInfo, "all workers are here",
      {{"round", round.round()}, {"workers", size}});
  return absl::OkStatus();
}

absl::StatusOr<RoundExchange::Content> RoundExchange::AwaitContent() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(AwaitRoundLocked());
  Content content;
  content.round = member_.round().round();
  content.source = member_.round().source();
  content.is_own = content.source == options_.worker;
  return content;
}

absl::Status RoundExchange::AwaitEnd() {
  MutexLock lock(&mutex_);
  member_.StandAtTheEnd();
  while (!finished_ && WhyStoppedLocked().ok()) {
    WaitsLocked(true);
    changed_.Wait(&mutex_);
  }
  return finished_ ? absl::OkStatus() : WhyStoppedLocked();
}

// ---- a step -----------------------------------------------------------------

void RoundExchange::Expect() {
  const MutexLock lock(&mutex_);
  interrupted_ = false;
}

void RoundExchange::Interrupt() {
  const MutexLock lock(&mutex_);
  interrupted_ = true;
  LeaveLocked();
  changed_.NotifyAll();
}

std::vector<uint32_t> RoundExchange::Begin(const v1::ComputeGradient& step,
                                           GradientSpans gradients) {
  step_ = step;
  gradients_.assign(gradients.begin(), gradients.end());
  gathered_.clear();
  before_.clear();
  pass_ = 0;
  if (sum_ == nullptr) {
    std::vector<uint64_t> elements;
    for (const absl::Span<float> gradient : gradients) {
      elements.push_back(gradient.size());
    }
    sum_ = std::make_unique<BucketedSum>(std::move(elements),
                                         options_.bucket_bytes);
    added_ = std::vector<std::atomic<bool>>(gradients.size());
  }
  {
    const MutexLock lock(&mutex_);
    v1::StepPosition next;
    next.set_epoch(step.epoch());
    next.set_begin(step.begin());
    member_.StandBefore(next);
  }
  begun_ = Join();
  if (!begun_.ok()) return {};
  const bool checks = options_.check_every_steps > 0 &&
                      steps_ % options_.check_every_steps == 0;
  ++steps_;
  header_ = MakeHeader(step, checks ? options_.checksum : nullptr);
  return BeginPass();
}

std::vector<uint32_t> RoundExchange::BeginPass() {
  for (std::atomic<bool>& added : added_) added = false;
  sum_->Begin(gradients_, collective_.get());
  const uint32_t share = static_cast<uint32_t>(
      pass_ * collective_->size() + collective_->rank());
  if (share >= options_.workers) return {};
  return {share};
}

absl::optional<std::vector<uint32_t>> RoundExchange::NextPass() {
  if (!begun_.ok() || (pass_ + 1) * collective_->size() >= options_.workers) {
    return absl::nullopt;
  }
  before_.resize(gradients_.size());
  for (size_t v = 0; v < gradients_.size(); ++v) {
    before_[v].assign(gradients_[v].begin(), gradients_[v].end());
  }
  ++pass_;
  return BeginPass();
}

// The first to add in this pass adds to the sum of those before.
void RoundExchange::AddBefore(size_t variable) {
  if (before_.empty() || collective_->rank() != 0) return;
  if (added_[variable].exchange(true)) return;
  const std::vector<float>& before = before_[variable];
  const absl::Span<float> own = gradients_[variable];
  for (size_t i = 0; i < own.size(); ++i) own[i] = before[i] + own[i];
}

void RoundExchange::Ready(size_t variable) {
  if (!begun_.ok()) return;
  AddBefore(variable);
  sum_->Ready(variable);
}

absl::Status RoundExchange::GatherFigures(const std::vector<double>& own) {
  const size_t members = collective_->size();
  std::vector<double> headers(members * kHeaderNumbers);
  RETURN_IF_ERROR(collective_->Gather(header_, absl::MakeSpan(headers)));
  RETURN_IF_ERROR(CheckHeaders(headers, names_));
  std::vector<double> all(own.size() * members);
  RETURN_IF_ERROR(collective_->Gather(own, absl::MakeSpan(all)));
  gathered_.insert(gathered_.end(), all.begin(), all.end());
  return absl::OkStatus();
}

absl::Status RoundExchange::End(std::vector<double>* figures) {
  RETURN_IF_ERROR(begun_);
  for (size_t v = 0; v < gradients_.size(); ++v) AddBefore(v);
  absl::Status status = sum_->End();
  const bool is_last = (pass_ + 1) * collective_->size() >= options_.workers;
  const bool has_sums = status.ok() && is_last;
  if (status.ok()) status = GatherFigures(*figures);
  if (absl::IsUnavailable(status)) return AwaitVerdict(has_sums, figures);
  RETURN_IF_ERROR(status);
  if (!is_last) return absl::OkStatus();
  *figures = gathered_;
  const MutexLock lock(&mutex_);
  member_.Made(*figures);
  return absl::OkStatus();
}

absl::Status RoundExchange::AwaitVerdict(bool has_sums,
                                         std::vector<double>* figures) {
  MutexLock lock(&mutex_);
  // It may be another round already, which was told meanwhile.
  if (linked_ == collective_) LeaveLocked();
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
