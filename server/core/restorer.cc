#include "server/core/restorer.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// How often it is said how far a server is that takes long to fill.
constexpr absl::Duration kProgress = absl::Seconds(10);

// A checkpoint that is not what was written, or can't be read where it lies, is
// given up for an older one; everything else is the job's mistake. `from` may
// be read later if there is a time to ask again.
v1::Refusal RefusalFor(const absl::Status& status, const std::string& from,
                       absl::Duration retry_after) {
  const bool may_pass = absl::IsUnavailable(status);
  v1::Refusal refusal;
  refusal.set_entity(from);
  refusal.set_reason(may_pass || absl::IsDataLoss(status)
                         ? v1::Refusal::DAMAGED
                         : v1::Refusal::INVALID);
  if (may_pass) {
    refusal.set_retry_after_ms(
        static_cast<uint32_t>(absl::ToInt64Milliseconds(retry_after)));
  }
  return refusal;
}

}  // namespace

void Restorer::Begin(ShardTurn* turn) {
  relayed_.reset();
  const ShardFiller::Options options = FillerOptions(turn);
  const v1::Configuration& configuration = view_.configuration;
  if (!view_.FindSelf(configuration)->restore_directory().empty()) {
    filler_ = std::make_unique<ShardFiller>(options, MakeCheckpoint());
  } else if (configuration.has_warm_start()) {
    filler_ =
        std::make_unique<ShardFiller>(options, configuration.warm_start());
  } else {
    filler_ = std::make_unique<ShardFiller>(options);
  }
  state_ = FillState::kFilling;
  fill_at_ = filler_->CanStep() || filler_->done() ? turn->now : Time::Never();
  next_progress_ = turn->now + kProgress;
  ReadOn(turn);
}

ShardFiller::Options Restorer::FillerOptions(ShardTurn* turn) {
  ShardFiller::Options options;
  options.content = turn->data.content.get();
  options.lives = &lives_;
  options.seed = view_.configuration.seed();
  options.window_bytes = view_.options.restore_window_bytes;
  options.in_place = true;
  return options;
}

ShardFiller::Checkpoint Restorer::MakeCheckpoint() const {
  const v1::Configuration& configuration = view_.configuration;
  ShardFiller::Checkpoint checkpoint;
  checkpoint.directory = view_.FindSelf(configuration)->restore_directory();
  checkpoint.run_id = configuration.run_id();
  checkpoint.check.set_index(view_.options.index);
  checkpoint.check.set_of(configuration.servers_size());
  checkpoint.check.set_alone(configuration.state() != v1::STARTING);
  return checkpoint;
}

void Restorer::ReadOn(ShardTurn* turn) {
  if (relayed_ != nullptr) return;
  for (;;) {
    ShardFiller::Read read = filler_->NextRead(turn->next_io());
    if (read.head == nullptr) return;
    turn->StartIo(std::move(read.head), std::move(read.memory));
  }
}

bool Restorer::Wants(IoId io) const {
  return filler_ != nullptr && filler_->Wants(io);
}

void Restorer::OnRead(const IoResult& result, ShardTurn* turn) {
  if (result.status.ok()) {
    const auto* read =
        dynamic_cast<const v1::ReadSlicesResult*>(result.head.get());
    const auto* initial =
        dynamic_cast<const v1::ReadWarmStartResult*>(result.head.get());
    if (read != nullptr && read->unseen()) {
      return WaitForChief(RelayedRestore::Content::kCheckpoint, turn);
    }
    if (initial != nullptr && initial->unseen()) {
      return WaitForChief(RelayedRestore::Content::kInitialValues, turn);
    }
  }
  const absl::Status taken = Take(result, turn);
  if (!taken.ok()) return FailReading(taken);
  fill_at_ = turn->now;
}

void Restorer::WaitForChief(RelayedRestore::Content brought, ShardTurn* turn) {
  ShardFiller::Options options = FillerOptions(turn);
  options.window_bytes = 0;  // A slice at a time.
  options.in_place = false;
  if (brought == RelayedRestore::Content::kCheckpoint) {
    filler_ = std::make_unique<ShardFiller>(options, MakeCheckpoint());
  } else {
    filler_ = std::make_unique<ShardFiller>(options,
                                            view_.configuration.warm_start());
  }
  relayed_ =
      std::make_unique<RelayedRestore>(turn->data.content.get(), brought);
  turn->out->Note(absl::StrCat(view_.Name(), " does not see '", Source(),
                               "'; its slices come through the chief"));
}

absl::Status Restorer::Take(const IoResult& result, ShardTurn* turn) {
  RETURN_IF_ERROR(result.status);
  RETURN_IF_ERROR(filler_->Take(result));
  if (const auto* read =
          dynamic_cast<const v1::ReadSlicesResult*>(result.head.get())) {
    turn->data.lost.Restore(*read, view_.configuration.run_id());
  }
  return absl::OkStatus();
}

absl::Status Restorer::OnFill(const v1::FillRequest& request,
                              const BufferChain& payload, v1::FillReply* reply,
                              ShardTurn* turn) {
  const v1::Header& header = request.header();
  RETURN_IF_ERROR(view_.checks.CheckRunning());
  RETURN_IF_ERROR(view_.checks.CheckTerm(header.term()));
  RETURN_IF_ERROR(view_.checks.CheckKnown(header));
  if (state_ == FillState::kFailed) return failure_;
  const bool is_meant = header.server_generation() == view_.generation;
  if (is_meant && state_ == FillState::kFilled) {
    reply->set_slice(static_cast<uint32_t>(turn->data.content->owned().size()));
    return absl::OkStatus();
  }
  if (!is_meant || relayed_ == nullptr) {
    return view_.NotReady(view_.Name(), absl::StrCat(view_.Name(),
                                                     " wants nothing from the "
                                                     "coordinator"));
  }
  if (filler_->full()) {
    return RefuseForNow(v1::Refusal::RETRY, view_.Name(),
                        view_.options.retry_after,
                        absl::StrCat(view_.Name(), " is filling in what came"));
  }
  ASSIGN_OR_RETURN(const bool is_whole, relayed_->Add(request, payload));
  if (is_whole) {
    IoResult slice = relayed_->Take();
    slice.io = turn->TakeIo();
    filler_->NextRead(slice.io);  // It was read by somebody else.
    const absl::Status taken = Take(slice, turn);
    if (!taken.ok()) {
      FailReading(taken);
      return failure_;
    }
    fill_at_ = turn->now;
  }
  *reply = relayed_->next();
  return absl::OkStatus();
}

bool Restorer::Advance(ShardTurn* turn) {
  if (filler_ == nullptr) return false;
  if (filler_->CanStep()) filler_->Step();
  ReadOn(turn);
  fill_at_ = filler_->CanStep() ? turn->now : Time::Never();
  NoteProgress(turn);
  if (!filler_->done()) return false;
  EndFilling(FillState::kFilled);
  NoteFilled(turn);
  return true;
}

void Restorer::FailReading(const absl::Status& why) {
  const std::string from = Source();
  Fail(Refuse(RefusalFor(why, from, view_.options.retry_after),
              absl::StrCat(view_.Name(), " could not restore '", from,
                           "': ", why.message())));
}

void Restorer::Fail(const absl::Status& why) {
  EndFilling(FillState::kFailed);
  failure_ = why;
}

void Restorer::EndFilling(FillState state) {
  filler_.reset();
  relayed_.reset();
  fill_at_ = Time::Never();
  state_ = state;
}

void Restorer::TakeOver(ShardContent* content) {
  for (Slice* const slice : content->owned()) {
    uint64_t life = 0;
    while (life == 0) life = lives_.Bits();
    for (int b = 0; b < slice->block_count(); ++b) {
      slice->block(b).set_life(life);
    }
  }
  EndFilling(FillState::kFilled);
}

absl::Status Restorer::AnswerConfigure(v1::ConfigureReply* reply) const {
  if (state_ == FillState::kFailed) return failure_;
  if (state_ == FillState::kBackup) return absl::OkStatus();
  reply->set_unseen(relayed_ != nullptr);
  if (state_ == FillState::kFilling && relayed_ == nullptr) {
    RETURN_IF_ERROR(view_.checks.CheckFilled());
  }
  const ShardContent* const content = view_.data.content.get();
  reply->set_restored(state_ == FillState::kFilled);
  reply->set_bytes(content == nullptr ? 0 : content->bytes());
  if (state_ == FillState::kFilled) content->Describe(reply);
  return absl::OkStatus();
}

std::string Restorer::Source() const {
  const v1::Configuration& configuration = view_.configuration;
  const std::string& directory =
      view_.FindSelf(configuration)->restore_directory();
  return directory.empty() ? configuration.warm_start().path() : directory;
}

void Restorer::NoteFilled(ShardTurn* turn) const {
  const ShardContent& content = *turn->data.content;
  const std::string generation = VersionName(view_.generation);
  const std::string from = Source();
  turn->out->Note(
      absl::StrCat("generation ", generation, " holds ", content.owned().size(),
                   " slices, ", content.bytes(), " bytes, from ",
                   from.empty() ? "initial values" : from),
      {{"generation", generation},
       {"slices", content.owned().size()},
       {"bytes", content.bytes()}});
}

void Restorer::NoteProgress(ShardTurn* turn) {
  if (turn->now < next_progress_) return;
  next_progress_ = turn->now + kProgress;
  const uint64_t bytes = turn->data.content->bytes();
  const std::string from = Source();
  turn->out->Note(
      absl::StrCat(filler_->filled_bytes(), " of ", bytes,
                   " bytes are filled, from ",
                   from.empty() ? "initial values" : from),
      {{"filled_bytes", filler_->filled_bytes()}, {"bytes", bytes}});
}

}  // namespace paramd
