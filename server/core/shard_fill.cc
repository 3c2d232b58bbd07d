// How a shard gets its first content.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "server/core/shard.h"

namespace paramd {
namespace {

// How often it is said how far a server is that takes long to fill.
constexpr absl::Duration kProgress = absl::Seconds(10);

// A checkpoint that is not what was written, or can't be read where it lies, is
// given up for an older one; everything else is the job's mistake. `from` may be
// read later if there is a time to ask again.
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

void Shard::BeginFilling(const v1::ServerMember& self, Time now, Outbox* out) {
  EndSync(RefuseForNow(v1::Refusal::NOT_READY, Name(), options_.retry_after,
                       absl::StrCat(Name(), " takes other content")),
          out);
  // What was frozen belongs to the content that is replaced.
  snapshot_.reset();
  drained_by_.Clear();
  lost_.Begin(options_.index, generation_);
  push_numbers_.Begin(generation_);
  uint64_t blocks = 0;
  for (const Slice* const slice : content_->owned()) {
    blocks += slice->block_count();
  }
  progress_.Begin(blocks);
  AnswerParked(out);
  handed_.reset();
  const ShardFiller::Options options = FillerOptions();
  if (!self.restore_directory().empty()) {
    filler_ = std::make_unique<ShardFiller>(options, CheckpointOf(self));
  } else if (configuration_.has_warm_start()) {
    filler_ =
        std::make_unique<ShardFiller>(options, configuration_.warm_start());
  } else {
    filler_ = std::make_unique<ShardFiller>(options);
  }
  state_ = State::kFilling;
  fill_at_ = filler_->CanStep() || filler_->done() ? now : Time::Never();
  next_progress_ = now + kProgress;
  ReadOn(out);
}

ShardFiller::Options Shard::FillerOptions() {
  ShardFiller::Options options;
  options.content = content_.get();
  options.lives = &lives_;
  options.seed = configuration_.seed();
  options.window_bytes = options_.restore_window_bytes;
  options.in_place = true;
  return options;
}

ShardFiller::Checkpoint Shard::CheckpointOf(
    const v1::ServerMember& self) const {
  ShardFiller::Checkpoint checkpoint;
  checkpoint.directory = self.restore_directory();
  checkpoint.run_id = configuration_.run_id();
  checkpoint.check.set_index(options_.index);
  checkpoint.check.set_of(configuration_.servers_size());
  checkpoint.check.set_alone(configuration_.state() != v1::STARTING);
  return checkpoint;
}

void Shard::ReadOn(Outbox* out) {
  if (handed_ != nullptr) return;
  for (;;) {
    ShardFiller::Read read = filler_->NextRead(next_io_);
    if (read.head == nullptr) return;
    out->StartIo(next_io_++, std::move(read.head), std::move(read.memory));
  }
}

std::string Shard::FilledFrom() const {
  const std::string& directory = FindSelf(configuration_)->restore_directory();
  return directory.empty() ? configuration_.warm_start().path() : directory;
}

void Shard::NoteFilled(Outbox* out) const {
  const std::string from = FilledFrom();
  out->Note(absl::StrCat("generation ", VersionName(generation_), " holds ",
                         content_->owned().size(), " slices, ",
                         content_->bytes(), " bytes, from ",
                         from.empty() ? "initial values" : from),
            {{"generation", VersionName(generation_)},
             {"slices", content_->owned().size()},
             {"bytes", content_->bytes()}});
}

void Shard::NoteProgress(Time now, Outbox* out) {
  if (now < next_progress_) return;
  next_progress_ = now + kProgress;
  const std::string from = FilledFrom();
  out->Note(absl::StrCat(filler_->filled_bytes(), " of ", content_->bytes(),
                         " bytes are filled, from ",
                         from.empty() ? "initial values" : from),
            {{"filled_bytes", filler_->filled_bytes()},
             {"bytes", content_->bytes()}});
}

void Shard::FillOn(Time now, Outbox* out) {
  if (filler_->CanStep()) filler_->Step();
  ReadOn(out);
  fill_at_ = filler_->CanStep() ? now : Time::Never();
  NoteProgress(now, out);
  if (!filler_->done()) return;
  filler_.reset();
  handed_.reset();
  fill_at_ = Time::Never();
  state_ = State::kFilled;
  FenceSessions();
  NoteFilled(out);
  const absl::Status begun = ConfigureSync(configuration_, out);
  if (begun.ok()) return;
  state_ = State::kFailed;
  failure_ = begun;
}

void Shard::HearRead(const IoResult& result, Time now, Outbox* out) {
  const auto* read =
      dynamic_cast<const v1::ReadSlicesResult*>(result.head.get());
  if (result.status.ok() && read != nullptr && read->unseen()) {
    ShardFiller::Options options = FillerOptions();
    options.window_bytes = 0;  // A slice at a time.
    options.in_place = false;
    filler_ = std::make_unique<ShardFiller>(
        options, CheckpointOf(*FindSelf(configuration_)));
    handed_ = std::make_unique<HandedSlices>(content_.get());
    out->Note(absl::StrCat(Name(), " does not see '", FilledFrom(),
                           "'; its slices come through the chief"));
    return;
  }
  const absl::Status taken = TakeRead(result);
  if (!taken.ok()) return FailFilling(taken);
  fill_at_ = now;
}

absl::Status Shard::TakeRead(const IoResult& result) {
  RETURN_IF_ERROR(result.status);
  RETURN_IF_ERROR(filler_->Take(result));
  if (const auto* read =
          dynamic_cast<const v1::ReadSlicesResult*>(result.head.get())) {
    lost_.Restore(*read, configuration_.run_id());
  }
  return absl::OkStatus();
}

void Shard::FailFilling(const absl::Status& why) {
  filler_.reset();
  handed_.reset();
  fill_at_ = Time::Never();
  state_ = State::kFailed;
  const std::string from = FilledFrom();
  failure_ = Refuse(
      RefusalFor(why, from, options_.retry_after),
      absl::StrCat(Name(), " could not restore '", from, "': ", why.message()));
}

absl::Status Shard::Fill(const v1::FillRequest& request,
                         const BufferChain& payload, Time now,
                         v1::FillReply* reply) {
  const v1::Header& header = request.header();
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckTerm(header.term()));
  RETURN_IF_ERROR(CheckKnown(header));
  if (state_ == State::kFailed) return failure_;
  const bool is_meant = header.server_generation() == generation_;
  if (is_meant && state_ == State::kFilled) {
    reply->set_slice(static_cast<uint32_t>(content_->owned().size()));
    return absl::OkStatus();
  }
  if (!is_meant || handed_ == nullptr) {
    return RefuseForNow(v1::Refusal::NOT_READY, Name(), options_.retry_after,
                        absl::StrCat(Name(), " wants nothing from the "
                                             "coordinator"));
  }
  if (filler_->full()) {
    return RefuseForNow(v1::Refusal::RETRY, Name(), options_.retry_after,
                        absl::StrCat(Name(), " is filling in what came"));
  }
  ASSIGN_OR_RETURN(const bool is_whole, handed_->Add(request, payload));
  if (is_whole) {
    IoResult slice = handed_->Take();
    slice.io = next_io_++;
    filler_->NextRead(slice.io);  // It was read by somebody else.
    const absl::Status taken = TakeRead(slice);
    if (!taken.ok()) {
      FailFilling(taken);
      return failure_;
    }
    fill_at_ = now;
  }
  *reply = handed_->next();
  return absl::OkStatus();
}

}  // namespace paramd
