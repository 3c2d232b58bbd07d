#include "server/core/backup_intake.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/wire_format.h"
#include "proto/refusal.h"
#include "server/core/step_keeper.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

// A push without the blocks that are not there yet.
struct PartOfPush {
  v1::PushRequest request;
  BufferChain payload;
};

void AddTo(BufferChain* chain, const BufferChain& more) {
  chain->insert(chain->end(), more.begin(), more.end());
}

absl::Status Diverged(absl::string_view what) {
  return Refuse(v1::Refusal::DAMAGED, "backup",
                absl::StrCat("the backup is not as the server was: ", what));
}

// Of the blocks that an answer names, those that took the push.
uint64_t CountTook(const v1::PushReply& reply) {
  return std::count_if(reply.blocks().begin(), reply.blocks().end(),
                       [](const v1::PushedBlock& block) {
                         return block.result() == v1::PushedBlock::APPLIED;
                       }) +
         std::count(reply.row_results().begin(), reply.row_results().end(),
                    static_cast<int>(v1::PushedBlock::APPLIED));
}

// What of the push is of slices that have blocks. The server has checked it, so
// what it names is there.
absl::StatusOr<PartOfPush> PartThatIsHere(const v1::PushRequest& push,
                                          const BufferChain& payload,
                                          const ShardContent& content) {
  PartOfPush part;
  part.request = push;
  part.request.clear_blocks();
  part.request.clear_rows();
  part.request.clear_rows_computed_on();
  const auto format = FormatOf(push.encoding());
  if (!format.has_value()) return Diverged("a push of an unknown encoding");
  ChainReader reader(payload);
  const auto take = [&](uint64_t bytes, bool is_here) {
    if (bytes > reader.remaining()) return false;
    const BufferChain taken = reader.Take(bytes);
    if (is_here) AddTo(&part.payload, taken);
    return true;
  };
  const v1::RowBlocks& rows = push.rows();
  const auto slice_of_row = [&](int i) {
    return content.Owned(rows.slices(i));
  };
  bool fits = true;
  for (int i = 0; i < rows.slices_size(); ++i) {  // Names come first.
    const Slice* const slice = slice_of_row(i);
    if (slice == nullptr) return Diverged("a push names a slice of others");
    fits =
        fits && take(rows.rows(i) * slice->row_id_bytes(), slice->has_blocks());
  }
  for (const v1::PushBlock& block : push.blocks()) {
    const Slice* const slice = content.Owned(block.slice());
    if (slice == nullptr) return Diverged("a push names a slice of others");
    if (slice->has_blocks()) *part.request.add_blocks() = block;
    fits =
        fits && take(block.elements() * BytesOf(*format), slice->has_blocks());
  }
  const v1::BlockVersions& read = push.rows_computed_on();
  for (int i = 0; i < rows.slices_size(); ++i) {
    const Slice* const slice = slice_of_row(i);
    fits = fits && take(rows.rows(i) * slice->row_elements() * BytesOf(*format),
                        slice->has_blocks());
    if (!slice->has_blocks()) continue;
    part.request.mutable_rows()->add_slices(rows.slices(i));
    part.request.mutable_rows()->add_blocks(rows.blocks(i));
    part.request.mutable_rows()->add_rows(rows.rows(i));
    if (i >= read.lives_size()) continue;
    part.request.mutable_rows_computed_on()->add_lives(read.lives(i));
    part.request.mutable_rows_computed_on()->add_counters(read.counters(i));
  }
  if (!fits) return Diverged("a push is shorter than what it names");
  return part;
}

}  // namespace

void BackupIntake::Begin(const v1::ConfigurationVersion& since) {
  since_ = since;
  taken_ = 0;
  copy_ = SliceCopy();
  state_.Clear();
  parked_.clear();
  broken_ = absl::OkStatus();
}

void BackupIntake::End(ShardTurn* turn) {
  for (const auto& [number, parked] : parked_) {
    turn->Refuse(parked.call,
                 Refuse(v1::Refusal::FENCED, view_.Name(),
                        absl::StrCat(view_.Name(), " is no backup any more")));
  }
  Begin({});
}

bool BackupIntake::whole() const {
  return !IsZero(since_) && broken_.ok() && view_.data.content != nullptr &&
         taken_ > 0 && copy_.next() == view_.data.content->owned().size();
}

absl::Status BackupIntake::CheckCaller(PeerId from) const {
  const uint32_t places = view_.options.places_of_a_ps;
  const v1::ServerMember* const self = view_.FindSelf(view_.configuration);
  if (places == 0 || self == nullptr ||
      from == PeerId::Ps(self->peer() / places)) {
    return absl::OkStatus();
  }
  return Refuse(v1::Refusal::NOT_ALLOWED, PeerName(from),
                absl::StrCat(PeerName(from), " speaks in the name of ",
                             view_.Name(), ", which is in ",
                             PeerName(PeerId::Ps(self->peer() / places))));
}

absl::Status BackupIntake::Check(PeerId from,
                                 const v1::ReplicateRequest& request) const {
  RETURN_IF_ERROR(view_.checks.CheckRunning());
  const v1::ServerLife& life = request.header().server_generation();
  // One that has forgotten what it held is to hear that it is the backup again.
  const bool is_its_own = view_.fill_state != FillState::kBackup &&
                          view_.fill_state != FillState::kNone &&
                          life == view_.generation;
  const bool is_old =
      life < view_.generation || is_its_own || request.since() < since_;
  if (is_old) {
    return Refuse(v1::Refusal::FENCED, view_.Name(),
                  absl::StrCat("generation ", VersionName(life), " of ",
                               view_.Name(), " is over; generation ",
                               VersionName(view_.generation), " is known"));
  }
  if (life != view_.generation || request.since() != since_) {
    return view_.NotReady(
        "coordinator",
        absl::StrCat(
            "this place of ", view_.Name(),
            " has not heard that it is the backup since configuration ",
            VersionName(request.since())));
  }
  RETURN_IF_ERROR(CheckCaller(from));
  return broken_;
}

void BackupIntake::Answer(CallId call, ShardTurn* turn) {
  answered_ = turn->now;
  auto reply = std::make_unique<v1::ReplicateReply>();
  reply->set_number(taken_);
  reply->set_incarnation(view_.options.incarnation);
  turn->out->Reply(call, std::move(reply));
}

void BackupIntake::OnReplicate(const Message& message,
                               const v1::ReplicateRequest& request,
                               const Told& told, ShardTurn* turn) {
  const absl::Status status = Check(message.from, request);
  if (!status.ok()) {
    return turn->Refuse(message.call, status);
  }
  if (request.number() <= taken_) return Answer(message.call, turn);
  if (request.number() > taken_ + 1) {
    if (parked_.size() >= kMostParked && !parked_.contains(request.number())) {
      return turn->Refuse(
          message.call,
          RefuseForNow(v1::Refusal::RETRY, view_.Name(),
                       view_.options.retry_after,
                       absl::StrCat(parked_.size(), " calls came too early")));
    }
    Parked& parked = parked_[request.number()];
    // It was sent again: nobody waits for the first answer.
    parked.call = message.call;
    parked.request = std::make_unique<v1::ReplicateRequest>(request);
    parked.payload = message.payload;
    return;
  }
  if (!TakeNext(message.call, request, message.payload, told, turn)) return;
  while (!parked_.empty() && parked_.begin()->first <= taken_ + 1) {
    const Parked next = std::move(parked_.begin()->second);
    parked_.erase(parked_.begin());
    if (next.request->number() <= taken_) {
      Answer(next.call, turn);
    } else if (!TakeNext(next.call, *next.request, next.payload, told, turn)) {
      return;
    }
  }
}

bool BackupIntake::TakeNext(CallId call, const v1::ReplicateRequest& request,
                            const BufferChain& payload, const Told& told,
                            ShardTurn* turn) {
  const absl::Status status = Take(request, payload, turn);
  if (!status.ok()) {
    // For want of memory: it comes again.
    const bool may_pass = RefusalOf(status).reason() == v1::Refusal::OVER_LIMIT;
    if (!may_pass) {
      broken_ = Diverged(status.message());
      turn->out->Warn(std::string(broken_.message()));
    }
    turn->Refuse(call, may_pass ? status : broken_);
    return false;
  }
  ++taken_;
  told(request);
  Answer(call, turn);
  return true;
}

absl::Status BackupIntake::Take(const v1::ReplicateRequest& request,
                                const BufferChain& payload, ShardTurn* turn) {
  if (request.has_push()) return TakePush(request, payload, turn);
  if (request.has_piece()) return TakePiece(request, payload, turn);
  if (request.has_proof()) return TakeProof(request.proof(), *turn);
  if (request.has_state()) return TakeState(request.state(), turn);
  if (request.has_decision()) return TakeDecision(request.decision(), turn);
  return absl::OkStatus();
}

absl::Status BackupIntake::TakePush(const v1::ReplicateRequest& request,
                                    const BufferChain& payload,
                                    ShardTurn* turn) {
  if (turn->data.step != nullptr || request.push().step() > 0) {
    return TakeContribution(request, payload, turn);
  }
  ShardContent* const content = turn->data.content.get();
  v1::PushReply reply;
  if (whole()) {
    RETURN_IF_ERROR(content->pushes().Push(request.push(), payload, &reply));
    const uint64_t took = CountTook(reply);
    if (took == request.applied()) return absl::OkStatus();
    return Diverged(absl::StrCat("a push changed ", took, " blocks, and ",
                                 request.applied(), " there"));
  }
  ASSIGN_OR_RETURN(const PartOfPush part,
                   PartThatIsHere(request.push(), payload, *content));
  return content->pushes().Push(part.request, part.payload, &reply);
}

absl::Status BackupIntake::TakeContribution(const v1::ReplicateRequest& request,
                                            const BufferChain& payload,
                                            ShardTurn* turn) {
  if (turn->data.step == nullptr) {
    return Diverged("a contribution, and it knows no contributors");
  }
  if (!whole()) return Diverged("a contribution before all slices are there");
  SyncStep& step = *turn->data.step;
  const uint64_t before = step.taken_blocks();
  v1::PushReply reply;
  RETURN_IF_ERROR(step.Push(request.push(), payload, &reply));
  const uint64_t took = step.taken_blocks() - before;
  if (took == request.applied()) return absl::OkStatus();
  return Diverged(absl::StrCat("of a contribution it took ", took,
                               " blocks, and ", request.applied(), " there"));
}

absl::Status BackupIntake::TakeDecision(
    const v1::ReplicateRequest::Decision& decision, ShardTurn* turn) {
  if (turn->data.step == nullptr) {
    return Diverged(absl::StrCat("step ", decision.step(),
                                 " is decided, and it knows no contributors"));
  }
  SyncStep& step = *turn->data.step;
  if (!whole()) {
    // What slices come with has it.
    if (decision.step() == step.step() + 1 && copy_.next() == 0) {
      step.Skip(decision.step());
      return absl::OkStatus();
    }
    return Diverged(
        absl::StrCat("step ", decision.step(), " follows step ", step.step()));
  }
  v1::DecideRequest request;
  *request.mutable_contributors() = decision.contributors();
  request.set_step(decision.step());
  *request.mutable_workers() = decision.workers();
  request.set_examples(decision.examples());
  *request.mutable_thresholds() = decision.thresholds();
  *request.mutable_channels() = decision.channels();
  return step.Repeat(request);
}

absl::Status BackupIntake::TakePiece(const v1::ReplicateRequest& request,
                                     const BufferChain& payload,
                                     ShardTurn* turn) {
  const std::vector<Slice*>& slices = turn->data.content->owned();
  if (copy_.next() >= slices.size()) return Diverged("a slice too many");
  return copy_.Add(request.piece(), payload, slices[copy_.next()]).status();
}

absl::Status BackupIntake::TakeState(const v1::ReplicateRequest::State& state,
                                     ShardTurn* turn) {
  RETURN_IF_ERROR(TakeStep(state, turn));
  state_ = state;
  ShardContent* const content = turn->data.content.get();
  content->SetDecaySteps(state.decay_steps());
  content->SetRateScale(state.learning_rate_scale());
  turn->data.acknowledged_alone = state.acknowledged_alone();
  for (Slice* const slice : content->owned()) {
    if (!slice->has_blocks()) continue;  // It comes with its record.
    for (const v1::SavedSession& session : state.sessions()) {
      slice->applied().Fence(session.worker(), session.generation());
    }
  }
  return absl::OkStatus();
}

absl::Status BackupIntake::TakeStep(const v1::ReplicateRequest::State& state,
                                    ShardTurn* turn) {
  std::unique_ptr<SyncStep>& step = turn->data.step;
  if (IsZero(state.contributors())) {
    if (step == nullptr) return absl::OkStatus();
    step.reset();
    turn->data.memory.SetKept(0);
    return absl::OkStatus();
  }
  if (step != nullptr && step->contributors() == state.contributors() &&
      step->step() != state.step()) {
    return Diverged(absl::StrCat("step ", step->step(), " is the newest, and ",
                                 state.step(), " there"));
  }
  if (step == nullptr) {
    step = std::make_unique<SyncStep>(
        StepKeeper::OptionsIn(view_.configuration, view_.options),
        turn->data.content.get());
  }
  v1::Configuration told;
  *told.mutable_contributors()->mutable_version() = state.contributors();
  told.mutable_contributors()->set_first_step(state.step() + 1);
  *told.mutable_contributors()->mutable_workers() = state.contributing();
  told.mutable_consistency()->set_backup_workers(state.backup_workers());
  for (const v1::SavedSession& session : state.sessions()) {
    v1::WorkerMember* const worker = told.add_workers();
    worker->set_index(session.worker());
    *worker->mutable_generation() = session.generation();
  }
  return step->Configure(told);
}

absl::Status BackupIntake::TakeProof(const v1::ReplicateRequest::Proof& proof,
                                     const ShardTurn& turn) const {
  const std::vector<Slice*>& slices = turn.data.content->owned();
  if (proof.slice() >= slices.size() ||
      proof.block() >=
          static_cast<uint32_t>(slices[proof.slice()]->block_count())) {
    return Diverged("a proof of a block that is not there");
  }
  const Slice& slice = *slices[proof.slice()];
  if (!slice.has_blocks()) return Diverged("a proof of a slice to come");
  const Block& block = slice.block(static_cast<int>(proof.block()));
  if (block.Checksum() == proof.crc32c() &&
      block.applied() == proof.applied()) {
    return absl::OkStatus();
  }
  return Diverged(absl::StrCat("block ", proof.block(), " of '",
                               slice.TensorName(), "' has other bits"));
}

}  // namespace paramd
