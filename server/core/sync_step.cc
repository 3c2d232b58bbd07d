#include "server/core/sync_step.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Decide is asked again by then, so its caller is never far behind.
constexpr absl::Duration kDecidePatience = absl::Seconds(1);

absl::Status Late(uint64_t step, uint32_t worker) {
  v1::Refusal refusal;
  refusal.set_reason(v1::Refusal::LATE);
  refusal.set_entity(WorkerName(worker));
  refusal.set_step(step);
  return Refuse(refusal, absl::StrCat("step ", step, " was decided without ",
                                      WorkerName(worker)));
}

}  // namespace

SyncStep::SyncStep(const Options& options, ShardContent* content)
    : retry_after_(options.retry_after),
      content_(*content),
      gradients_(options, content) {}

// ---- who contributes -------------------------------------------------------

absl::Status SyncStep::Configure(const v1::Configuration& configuration) {
  const v1::Contributors& told = configuration.contributors();
  if (told.version() != gradients_.contributors()) {
    const uint32_t backup = configuration.consistency().backup_workers();
    RETURN_IF_ERROR(CheckContributors(told));
    RETURN_IF_ERROR(gradients_.CheckFits(told.workers_size(), backup));
    gradients_.Begin(told, backup);
    step_ = told.first_step() - 1;
    AnswerDecide();
  }
  gradients_.NoteSessions(configuration);
  return absl::OkStatus();
}

absl::Status SyncStep::CheckContributors(const v1::Contributors& told) const {
  const std::string version = VersionName(told.version());
  const v1::ContributorsVersion& known = gradients_.contributors();
  if (told.version() < known || told.first_step() == 0 ||
      told.workers().empty()) {
    return Invalid(
        "contributors",
        absl::StrCat("contributors ", version, " follow ", VersionName(known),
                     " and begin with ", told.workers_size(),
                     " workers at step ", told.first_step()));
  }
  if (applying_ || (!IsZero(known) && told.first_step() != step_ + 1)) {
    return Invalid("contributors",
                   absl::StrCat("contributors ", version, " begin with step ",
                                told.first_step(), "; the next one here is ",
                                step_ + 1 + (applying_ ? 1 : 0)));
  }
  return absl::OkStatus();
}

// ---- gathering -------------------------------------------------------------

absl::Status SyncStep::Push(const v1::PushRequest& request,
                            const BufferChain& payload, v1::PushReply* reply) {
  RETURN_IF_ERROR(CheckStep(request));
  ASSIGN_OR_RETURN(const std::vector<PushDecision> decisions,
                   content_.pushes().Check(request, payload));
  if (request.step() <= step_) return AnswerDecided(request, decisions, reply);
  RETURN_IF_ERROR(Gather(request, decisions, payload, reply));
  AnswerDecide();
  return absl::OkStatus();
}

absl::Status SyncStep::CheckStep(const v1::PushRequest& request) const {
  const v1::ContributorsVersion& known = gradients_.contributors();
  const auto not_ready = [this](const std::string& sentence) {
    return RefuseForNow(v1::Refusal::NOT_READY, "coordinator", retry_after_,
                        sentence);
  };
  if (request.step() == 0) {
    return Invalid("step", "a push of this job names the step it is of");
  }
  if (IsZero(known)) return not_ready("nobody contributes yet");
  if (request.contributors() > known) {
    return not_ready(
        absl::StrCat("contributors ", VersionName(request.contributors()),
                     " are not known yet; ", VersionName(known), " are"));
  }
  if (request.step() <= step_) return absl::OkStatus();
  if (request.step() > step_ + 1) {
    return not_ready(absl::StrCat("push is of step ", request.step(),
                                  "; the next one here is ", step_ + 1));
  }
  if (request.contributors() < known) {
    return not_ready(absl::StrCat(
        "step ", request.step(), " is of contributors ", VersionName(known),
        ", not of ", VersionName(request.contributors())));
  }
  return absl::OkStatus();
}

absl::Status SyncStep::AnswerDecided(const v1::PushRequest& request,
                                     const std::vector<PushDecision>& decisions,
                                     v1::PushReply* reply) const {
  for (const PushDecision& decision : decisions) {
    if (decision.admission == AppliedPushes::Admission::kApply) {
      return Late(step_, request.header().worker());
    }
    decision.Answer(ResultOf(decision.admission), reply);
  }
  return absl::OkStatus();
}

absl::Status SyncStep::Gather(const v1::PushRequest& request,
                              const std::vector<PushDecision>& decisions,
                              const BufferChain& payload,
                              v1::PushReply* reply) {
  const uint32_t worker = request.header().worker();
  RETURN_IF_ERROR(gradients_.CheckContributor(worker));
  if (applying_ && absl::c_count(decided_, worker) == 0) {
    return Late(step_ + 1, worker);
  }
  return gradients_.Add(request, decisions, payload, reply);
}

// ---- deciding and applying -------------------------------------------------

bool SyncStep::Decide(CallId call, const v1::DecideRequest& request, Time now) {
  const absl::Status checked = CheckDecision(request);
  if (!checked.ok()) {
    answers_.push_back({call, checked, nullptr});
    return false;
  }
  RefuseDecide(RefuseForNow(v1::Refusal::NOT_READY, "coordinator", retry_after_,
                            "asked again meanwhile"));
  const bool is_new = request.step() > step_;
  tell_applied_ = is_new || std::exchange(told_nobody_, false);
  const bool begins = is_new && !applying_;
  if (begins) BeginApplying(request);
  decide_call_ = call;
  decide_deadline_ = now + kDecidePatience;
  known_complete_.assign(request.known_complete().begin(),
                         request.known_complete().end());
  AnswerDecide();
  return begins;
}

absl::Status SyncStep::CheckDecision(const v1::DecideRequest& request) const {
  const v1::ContributorsVersion& present = gradients_.contributors();
  const std::string version = VersionName(request.contributors());
  if (request.contributors() > present) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, "coordinator", retry_after_,
        absl::StrCat("contributors ", version, " are not known yet"));
  }
  if (request.contributors() < present) {
    return Refuse(
        v1::Refusal::SUPERSEDED, "contributors",
        absl::StrCat("contributors ", version, " have been followed by ",
                     VersionName(present)));
  }
  if (request.step() <= step_) return absl::OkStatus();
  RETURN_IF_ERROR(content_.pruning().CheckThresholds(request.thresholds()));
  RETURN_IF_ERROR(content_.pruning().CheckChannels(request.channels()));
  const std::vector<uint32_t> told(request.workers().begin(),
                                   request.workers().end());
  const std::string step = absl::StrCat("step ", request.step());
  if (request.step() > step_ + 1) {
    return Invalid(step, absl::StrCat(step, " is decided; step ", step_ + 1,
                                      " is the next one here"));
  }
  if (applying_) {
    if (told == decided_) return absl::OkStatus();
    return Invalid(step, absl::StrCat(step, " was decided with other workers"));
  }
  return CheckWorkers(told, step);
}

absl::Status SyncStep::CheckWorkers(const std::vector<uint32_t>& told,
                                    const std::string& step) const {
  const std::vector<uint32_t>& workers = gradients_.workers();
  const uint32_t backup = gradients_.backup_workers();
  std::vector<uint32_t> known;
  for (const uint32_t worker : workers) {
    if (absl::c_linear_search(told, worker)) known.push_back(worker);
  }
  if (known != told || told.size() + backup < workers.size()) {
    return Invalid(
        step,
        absl::StrCat(step, " is decided with ", told.size(),
                     " workers, who are not ", workers.size() - backup, " to ",
                     workers.size(), " of the contributors in their order"));
  }
  const std::vector<uint32_t> complete = gradients_.Complete();
  for (const uint32_t worker : told) {
    if (absl::c_linear_search(complete, worker) &&
        gradients_.IsAdmitted(worker)) {
      continue;
    }
    return Invalid(step,
                   absl::StrCat(step, " is decided with ", WorkerName(worker),
                                ", whose contribution is not wholly here"));
  }
  return absl::OkStatus();
}

void SyncStep::BeginApplying(const v1::DecideRequest& request) {
  decided_.assign(request.workers().begin(), request.workers().end());
  const uint64_t contributed = gradients_.ExamplesOf(decided_);
  scale_ = 1;
  if (contributed > 0 && contributed < request.examples()) {
    scale_ = static_cast<float>(static_cast<double>(request.examples()) /
                                static_cast<double>(contributed));
  }
  content_.pruning().SetThresholds(request.thresholds());
  content_.pruning().SetChannels(request.channels());
  applied_blocks_ = 0;
  applying_ = true;
  if (gradients_.blocks() == 0) EndApplying();
}

absl::Status SyncStep::ApplySome(size_t elements) {
  for (size_t done = 0; applying_ && done < elements;) {
    done += gradients_.ElementsOf(applied_blocks_);  // Till it is applied.
    RETURN_IF_ERROR(
        gradients_.Apply(applied_blocks_, decided_, scale_, step_ + 1));
    if (++applied_blocks_ == gradients_.blocks()) EndApplying();
  }
  return absl::OkStatus();
}

void SyncStep::EndApplying() {
  applying_ = false;
  ++step_;
  gradients_.Drop();
  AnswerDecide();
}

void SyncStep::AnswerDecide() {
  if (!decide_call_.has_value() || applying_) return;
  const std::vector<uint32_t> complete = gradients_.Complete();
  if (!tell_applied_ && complete == known_complete_) return;
  AnswerDecideWith(complete);
}

void SyncStep::AnswerDecideWith(const std::vector<uint32_t>& complete) {
  auto reply = std::make_unique<v1::DecideReply>();
  reply->set_step(step_);
  *reply->mutable_contributors() = gradients_.contributors();
  for (const uint32_t worker : complete) reply->add_complete(worker);
  CountWeights();
  for (const v1::MagnitudeCounts& counts : magnitudes_) {
    *reply->add_magnitudes() = counts;
  }
  for (const v1::ChannelSizes& sizes : channels_) {
    *reply->add_channels() = sizes;
  }
  answers_.push_back({*decide_call_, absl::OkStatus(), std::move(reply)});
  decide_call_.reset();
}

void SyncStep::CountWeights() {
  if (counted_step_ == step_) return;
  magnitudes_ = content_.pruning().CountMagnitudes();
  channels_ = content_.pruning().CountChannels();
  counted_step_ = step_;
}

// ---- as a backup -----------------------------------------------------------

void SyncStep::Save(v1::ReplicateRequest::State* state) const {
  *state->mutable_contributors() = gradients_.contributors();
  for (const uint32_t worker : gradients_.workers()) {
    state->add_contributing(worker);
  }
  state->set_backup_workers(gradients_.backup_workers());
  state->set_step(step_);
}

absl::Status SyncStep::Repeat(const v1::DecideRequest& request) {
  RETURN_IF_ERROR(CheckDecision(request));
  // What it lacked memory for was applied since.
  if (request.step() <= step_) return absl::OkStatus();
  told_nobody_ = true;
  if (!applying_) BeginApplying(request);
  return ApplySome(std::numeric_limits<size_t>::max());
}

void SyncStep::Skip(uint64_t step) { step_ = step; }

// ---- time and answers ------------------------------------------------------

void SyncStep::Tick(Time now) {
  if (decide_call_.has_value() && !applying_ && decide_deadline_ <= now) {
    AnswerDecideWith(gradients_.Complete());
  }
}

Time SyncStep::next_tick() const {
  return decide_call_.has_value() && !applying_ ? decide_deadline_
                                                : Time::Never();
}

std::vector<SyncStep::Answer> SyncStep::TakeAnswers() {
  return std::exchange(answers_, {});
}

void SyncStep::RefuseDecide(const absl::Status& status) {
  if (!decide_call_.has_value()) return;
  answers_.push_back({*decide_call_, status, nullptr});
  decide_call_.reset();
}

}  // namespace paramd
