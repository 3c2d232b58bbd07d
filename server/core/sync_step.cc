#include "server/core/sync_step.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/wire_format.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "tensor/number_reader.h"

namespace paramd {
namespace {

// Decide is asked again by then, so its caller is never far behind.
constexpr absl::Duration kDecidePatience = absl::Seconds(1);
constexpr size_t kMostNames = 3;

absl::Status Invalid(absl::string_view entity, absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, entity, sentence);
}

std::string WorkerName(uint32_t worker) {
  return paramd::WorkerName(worker, v1::Version());
}

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
    : options_(options), content_(*content), spare_(content->spare()) {
  for (Slice* const slice : content_.owned()) {
    first_block_[slice] = blocks_.size();
    for (int b = 0; b < slice->block_count(); ++b) {
      BlockState& state = blocks_.emplace_back();
      state.slice = slice;
      state.block = b;
      const uint64_t bytes = slice->block_elements(b) * sizeof(float);
      shard_bytes_ += bytes;
      largest_block_bytes_ = std::max(largest_block_bytes_, bytes);
    }
  }
}

// ---- who contributes -------------------------------------------------------

absl::Status SyncStep::Configure(const v1::Configuration& configuration) {
  const v1::Contributors& told = configuration.contributors();
  if (told.version() == contributors_) {
    NoteSessions(configuration);
    return absl::OkStatus();
  }
  const std::string version = VersionName(told.version());
  const uint32_t backup = configuration.consistency().backup_workers();
  if (told.version() < contributors_ || told.first_step() == 0 ||
      told.workers().empty()) {
    return Invalid("contributors",
                   absl::StrCat("contributors ", version, " follow ",
                                VersionName(contributors_), " and begin with ",
                                told.workers_size(), " workers at step ",
                                told.first_step()));
  }
  if (applying_ || (!IsZero(contributors_) && told.first_step() != step_ + 1)) {
    return Invalid("contributors",
                   absl::StrCat("contributors ", version, " begin with step ",
                                told.first_step(), "; the next one here is ",
                                step_ + 1 + (applying_ ? 1 : 0)));
  }
  const uint64_t needed = shard_bytes_ * told.workers_size();
  if (backup > 0 && needed > options_.park_bytes) {
    return Invalid(
        "sync_park_bytes",
        absl::StrCat("a step of ", told.workers_size(), " workers has ", needed,
                     " bytes of gradients here; sync_park_bytes is ",
                     options_.park_bytes));
  }
  DropGathered();
  step_ = told.first_step() - 1;
  contributors_ = told.version();
  workers_.assign(told.workers().begin(), told.workers().end());
  backup_workers_ = backup;
  NoteSessions(configuration);
  AnswerDecide();
  return absl::OkStatus();
}

void SyncStep::NoteSessions(const v1::Configuration& configuration) {
  sessions_.clear();
  for (const v1::WorkerMember& member : configuration.workers()) {
    sessions_[member.index()] = member.generation();
  }
}

absl::optional<size_t> SyncStep::PlaceOf(uint32_t worker) const {
  const auto it = absl::c_find(workers_, worker);
  if (it == workers_.end()) return absl::nullopt;
  return it - workers_.begin();
}

size_t SyncStep::IndexOf(const ShardContent::Decision& decision) const {
  return first_block_.at(decision.slice) + decision.block;
}

void SyncStep::DropGathered() {
  contributions_.clear();
  parked_bytes_ = 0;
  for (BlockState& block : blocks_) {
    block.sum.Clear(&spare_);
    block.next = 0;
  }
  summed_bytes_ = borrowed_bytes_ = 0;
  CountKept();
}

// Of memory that gRPC received: what waits, and sums of one gradient.
void SyncStep::CountKept() {
  if (content_.memory() == nullptr) return;
  content_.memory()->SetKept(parked_bytes_ + borrowed_bytes_);
}

// ---- gathering -------------------------------------------------------------

absl::Status SyncStep::Push(const v1::PushRequest& request,
                            const BufferChain& payload, v1::PushReply* reply) {
  RETURN_IF_ERROR(CheckStep(request));
  ASSIGN_OR_RETURN(const std::vector<ShardContent::Decision> decisions,
                   content_.Check(request, payload));
  if (request.step() <= step_) return AnswerDecided(request, decisions, reply);
  RETURN_IF_ERROR(Gather(request, decisions, payload, reply));
  AnswerDecide();
  return absl::OkStatus();
}

absl::Status SyncStep::CheckStep(const v1::PushRequest& request) const {
  const auto not_ready = [this](const std::string& sentence) {
    return RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                        options_.retry_after, sentence);
  };
  if (request.step() == 0) {
    return Invalid("step", "a push of this job names the step it is of");
  }
  if (IsZero(contributors_)) return not_ready("nobody contributes yet");
  if (request.contributors() > contributors_) {
    return not_ready(absl::StrCat(
        "contributors ", VersionName(request.contributors()),
        " are not known yet; ", VersionName(contributors_), " are"));
  }
  if (request.step() <= step_) return absl::OkStatus();
  if (request.step() > step_ + 1) {
    return not_ready(absl::StrCat("push is of step ", request.step(),
                                  "; the next one here is ", step_ + 1));
  }
  if (request.contributors() < contributors_) {
    return not_ready(absl::StrCat("step ", request.step(),
                                  " is of contributors ",
                                  VersionName(contributors_), ", not of ",
                                  VersionName(request.contributors())));
  }
  return absl::OkStatus();
}

absl::Status SyncStep::AnswerDecided(
    const v1::PushRequest& request,
    const std::vector<ShardContent::Decision>& decisions,
    v1::PushReply* reply) const {
  for (size_t i = 0; i < decisions.size(); ++i) {
    const ShardContent::Decision& decision = decisions[i];
    if (decision.admission == AppliedPushes::Admission::kApply) {
      return Late(step_, request.header().worker());
    }
    v1::PushedBlock* const pushed = reply->add_blocks();
    pushed->set_slice(request.blocks(i).slice());
    pushed->set_block(request.blocks(i).block());
    pushed->set_result(decision.admission ==
                               AppliedPushes::Admission::kSuperseded
                           ? v1::PushedBlock::SUPERSEDED
                           : v1::PushedBlock::ALREADY_APPLIED);
    *pushed->mutable_version() =
        decision.slice->block(decision.block).version();
  }
  return absl::OkStatus();
}

absl::Status SyncStep::Gather(
    const v1::PushRequest& request,
    const std::vector<ShardContent::Decision>& decisions,
    const BufferChain& payload, v1::PushReply* reply) {
  const uint32_t worker = request.header().worker();
  const auto place = PlaceOf(worker);
  if (!place.has_value()) {
    return Invalid(
        WorkerName(worker),
        absl::StrCat(WorkerName(worker), " is not one of the ", workers_.size(),
                     " contributors ", VersionName(contributors_)));
  }
  if (applying_ && absl::c_count(decided_, worker) == 0) {
    return Late(step_ + 1, worker);
  }
  ASSIGN_OR_RETURN(Contribution* const contribution, FindContribution(request));
  std::vector<size_t> missing;
  for (const ShardContent::Decision& decision : decisions) {
    const size_t index = IndexOf(decision);
    if (!contribution->in[index]) missing.push_back(index);
  }
  RETURN_IF_ERROR(CheckRoom(*contribution, *place, missing));
  RETURN_IF_ERROR(MakeRoom(*contribution, *place, missing));
  ChainReader reader(payload);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const size_t index = IndexOf(decisions[i]);
    BufferChain gradient = NumberReader(&reader, *FormatOf(request.encoding()))
                               .Take(request.blocks(i).elements());
    v1::PushedBlock* const pushed = reply->add_blocks();
    pushed->set_slice(request.blocks(i).slice());
    pushed->set_block(request.blocks(i).block());
    pushed->set_result(v1::PushedBlock::HELD);
    if (contribution->in[index]) continue;
    parked_bytes_ += ChainSize(gradient);
    contribution->gradient[index] = std::move(gradient);
    contribution->in[index] = true;
    --contribution->missing;
    if (eager()) AddInOrder(index);
  }
  CountKept();
  return absl::OkStatus();
}

absl::StatusOr<SyncStep::Contribution*> SyncStep::FindContribution(
    const v1::PushRequest& request) {
  const v1::Header& header = request.header();
  const auto [it, added] = contributions_.try_emplace(header.worker());
  Contribution& contribution = it->second;
  if (added) {
    contribution.push = {header.worker(), header.generation(),
                         header.sequence()};
    contribution.examples = request.examples();
    contribution.missing = blocks_.size();
    contribution.in.assign(blocks_.size(), false);
    contribution.gradient.resize(blocks_.size());
  } else if (contribution.push.generation != header.generation()) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
        absl::StrCat("contributors ", VersionName(contributors_),
                     " are of another session of ",
                     WorkerName(header.worker())));
  } else if (contribution.push.sequence != header.sequence() ||
             contribution.examples != request.examples()) {
    return Invalid(
        WorkerName(header.worker()),
        absl::StrCat("push ", header.sequence(), " of ", request.examples(),
                     " examples is of step ", request.step(), "; push ",
                     contribution.push.sequence, " of ", contribution.examples,
                     " examples of ", WorkerName(header.worker()),
                     " is here for that"));
  }
  return &contribution;
}

absl::Status SyncStep::CheckRoom(const Contribution& contribution, size_t place,
                                 const std::vector<size_t>& blocks) const {
  if (contribution.examples == 0) return absl::OkStatus();
  uint64_t wanted = 0;
  for (const size_t index : blocks) {
    const BlockState& block = blocks_[index];
    const bool is_next = eager() && block.next == place;
    if (!is_next) {
      wanted += block.slice->block_elements(block.block) * sizeof(float);
    }
  }
  if (parked_bytes_ + wanted <= options_.park_bytes || wanted == 0) {
    return absl::OkStatus();
  }
  return RefuseForNow(
      v1::Refusal::RETRY, waiting_for(), options_.retry_after,
      absl::StrCat("no room for ", wanted, " bytes: ", parked_bytes_, " of ",
                   options_.park_bytes, " wait for ", waiting_for()));
}

void SyncStep::AddInOrder(size_t index) {
  BlockState& block = blocks_[index];
  for (; block.next < workers_.size(); ++block.next) {
    const auto it = contributions_.find(workers_[block.next]);
    if (it == contributions_.end() || !it->second.in[index]) return;
    BufferChain gradient = std::exchange(it->second.gradient[index], {});
    parked_bytes_ -= ChainSize(gradient);
    AddTo(&block, std::move(gradient));
  }
}

// What waits must leave room for the sums, or nothing would ever be added.
absl::Status SyncStep::MakeRoom(const Contribution& contribution, size_t place,
                                const std::vector<size_t>& blocks) {
  if (content_.memory() == nullptr || contribution.examples == 0) {
    return absl::OkStatus();
  }
  uint64_t wanted = 0;
  bool waits = false;
  for (const size_t index : blocks) {
    const BlockState& block = blocks_[index];
    const bool is_next = eager() && block.next == place;
    waits |= !is_next;
    if (is_next && block.sum.size() > 0 && block.sum.borrowed_bytes() == 0) {
      continue;
    }
    wanted += block.slice->block_elements(block.block) * sizeof(float);
  }
  if (wanted == 0) return absl::OkStatus();
  if (waits) {
    wanted += largest_block_bytes_;
    if (eager()) wanted += shard_bytes_ - summed_bytes_;
  }
  return content_.MakeRoom(
      absl::StrCat("a gradient of step ", step_ + 1, ", which waits for ",
                   waiting_for()),
      [wanted] { return wanted; });
}

void SyncStep::AddTo(BlockState* block, BufferChain gradient) {
  summed_bytes_ -= block->sum.size();
  borrowed_bytes_ -= block->sum.borrowed_bytes();
  block->sum.Add(std::move(gradient), &spare_);
  summed_bytes_ += block->sum.size();
  borrowed_bytes_ += block->sum.borrowed_bytes();
}

// ---- deciding and applying -------------------------------------------------

void SyncStep::Decide(CallId call, const v1::DecideRequest& request, Time now) {
  const absl::Status checked = CheckDecision(request);
  if (!checked.ok()) {
    answers_.push_back({call, checked, nullptr});
    return;
  }
  RefuseDecide(RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                            options_.retry_after, "asked again meanwhile"));
  tell_applied_ = request.step() > step_;
  if (tell_applied_ && !applying_) BeginApplying(request);
  decide_call_ = call;
  decide_deadline_ = now + kDecidePatience;
  known_complete_.assign(request.known_complete().begin(),
                         request.known_complete().end());
  AnswerDecide();
}

absl::Status SyncStep::CheckDecision(const v1::DecideRequest& request) const {
  const std::string version = VersionName(request.contributors());
  if (request.contributors() > contributors_) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
        absl::StrCat("contributors ", version, " are not known yet"));
  }
  if (request.contributors() < contributors_) {
    return Refuse(
        v1::Refusal::SUPERSEDED, "contributors",
        absl::StrCat("contributors ", version, " have been followed by ",
                     VersionName(contributors_)));
  }
  if (request.step() <= step_) return absl::OkStatus();
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
  std::vector<uint32_t> known;
  for (const uint32_t worker : workers_) {
    if (absl::c_count(told, worker) > 0) known.push_back(worker);
  }
  if (known != told || told.size() + backup_workers_ < workers_.size()) {
    return Invalid(step, absl::StrCat(step, " is decided with ", told.size(),
                                      " workers, who are not ",
                                      workers_.size() - backup_workers_, " to ",
                                      workers_.size(),
                                      " of the contributors in their order"));
  }
  const std::vector<uint32_t> complete = Complete();
  for (const uint32_t worker : told) {
    if (absl::c_count(complete, worker) > 0 && IsAdmitted(worker)) continue;
    return Invalid(step,
                   absl::StrCat(step, " is decided with ", WorkerName(worker),
                                ", whose contribution is not wholly here"));
  }
  return absl::OkStatus();
}

// Its session may have been fenced since it came.
bool SyncStep::IsAdmitted(uint32_t worker) const {
  const PushId& push = contributions_.at(worker).push;
  return absl::c_all_of(first_block_, [&](const auto& slice) {
    const auto admission = slice.first->applied().Admit(push, 0);
    return admission.ok() && *admission == AppliedPushes::Admission::kApply;
  });
}

void SyncStep::BeginApplying(const v1::DecideRequest& request) {
  decided_.assign(request.workers().begin(), request.workers().end());
  uint64_t contributed = 0;
  for (const uint32_t worker : decided_) {
    contributed += contributions_[worker].examples;
  }
  scale_ = 1;
  if (contributed > 0 && contributed < request.examples()) {
    scale_ = static_cast<float>(static_cast<double>(request.examples()) /
                                static_cast<double>(contributed));
  }
  applied_blocks_ = 0;
  applying_ = true;
  if (blocks_.empty()) EndApplying();
}

absl::Status SyncStep::ApplySome(size_t elements) {
  for (size_t done = 0; applying_ && done < elements;) {
    const BlockState& block = blocks_[applied_blocks_];
    RETURN_IF_ERROR(content_.MakeRoom(
        absl::StrCat("step ", step_ + 1),
        [this, &block] { return BytesToApply(block); }));
    done += block.slice->block_elements(block.block);
    ApplyBlock(applied_blocks_);
    if (++applied_blocks_ == blocks_.size()) EndApplying();
  }
  return absl::OkStatus();
}

// At most: of what others read of the block, and of a sum of several.
uint64_t SyncStep::BytesToApply(const BlockState& block) const {
  const bool sums = !eager() || scale_ != 1;
  return block.slice->block(block.block).read_bytes() +
         (sums ? block.slice->block_elements(block.block) * sizeof(float) : 0);
}

void SyncStep::ApplyBlock(size_t index) {
  BlockState& block = blocks_[index];
  for (const uint32_t worker : decided_) {
    Contribution& contribution = contributions_[worker];
    AddTo(&block, std::exchange(contribution.gradient[index], {}));
  }
  if (scale_ != 1) block.sum.Scale(scale_, &spare_);
  if (!block.sum.empty()) {
    ChainReader reader(block.sum.chain());
    content_.ApplyBlock(block.slice, block.block, &reader);
  }
  for (const uint32_t worker : decided_) {
    const PushId& push = contributions_[worker].push;
    const auto admission = block.slice->applied().Admit(push, block.block);
    CHECK(admission.ok() && *admission == AppliedPushes::Admission::kApply,
          "sessions change only when the decided step is applied");
    block.slice->applied().MarkApplied(push, block.block);
  }
  summed_bytes_ -= block.sum.size();
  borrowed_bytes_ -= block.sum.borrowed_bytes();
  block.sum.Clear(&spare_);
  CountKept();
}

void SyncStep::EndApplying() {
  applying_ = false;
  ++step_;
  DropGathered();
  AnswerDecide();
}

std::vector<uint32_t> SyncStep::Complete() const {
  std::vector<uint32_t> complete;
  for (const uint32_t worker : workers_) {
    const auto it = contributions_.find(worker);
    if (it != contributions_.end() && it->second.missing == 0) {
      complete.push_back(worker);
    }
  }
  return complete;
}

void SyncStep::AnswerDecide() {
  if (!decide_call_.has_value() || applying_) return;
  const std::vector<uint32_t> complete = Complete();
  if (!tell_applied_ && complete == known_complete_) return;
  AnswerDecideWith(complete);
}

void SyncStep::AnswerDecideWith(const std::vector<uint32_t>& complete) {
  auto reply = std::make_unique<v1::DecideReply>();
  reply->set_step(step_);
  *reply->mutable_contributors() = contributors_;
  for (const uint32_t worker : complete) reply->add_complete(worker);
  answers_.push_back({*decide_call_, absl::OkStatus(), std::move(reply)});
  decide_call_.reset();
}

// ---- time and answers ------------------------------------------------------

void SyncStep::Tick(Time now) {
  if (decide_call_.has_value() && !applying_ && decide_deadline_ <= now) {
    AnswerDecideWith(Complete());
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

std::string SyncStep::waiting_for() const {
  const std::vector<uint32_t> complete = Complete();
  std::vector<std::string> names;
  for (const uint32_t worker : workers_) {
    if (absl::c_count(complete, worker) > 0) continue;
    if (names.size() == kMostNames) {
      names.push_back("others");
      break;
    }
    const auto session = sessions_.find(worker);
    names.push_back(session == sessions_.end()
                        ? WorkerName(worker)
                        : WorkerName(worker, session->second));
  }
  if (names.empty()) {
    return absl::StrCat("the coordinator to decide step ", step_ + 1);
  }
  return absl::StrCat(absl::StrJoin(names, ", "), " to contribute to step ",
                      step_ + 1);
}

}  // namespace paramd
