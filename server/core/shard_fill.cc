// How a shard gets its first content.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "server/core/shard.h"

namespace paramd {

void Shard::BeginFilling(const v1::ServerMember& self, Time now, Outbox* out) {
  EndSync(RefuseForNow(v1::Refusal::NOT_READY, Name(), options_.retry_after,
                       absl::StrCat(Name(), " takes other content")),
          out);
  // What was frozen belongs to the content that is replaced.
  snapshot_.reset();
  drained_by_.Clear();
  lost_.Begin(options_.index, generation_);
  AnswerParked(out);
  filler_.reset();
  read_io_ = 0;
  fill_at_ = Time::Never();
  const bool from_checkpoint = !self.restore_directory().empty();
  if (!from_checkpoint && !configuration_.has_warm_start()) {
    filler_ = ShardFiller::FromInitialValues(content_.get(),
                                             configuration_.seed(), &lives_);
    state_ = State::kFilling;
    fill_at_ = now;
    return;
  }
  state_ = State::kReading;
  read_io_ = next_io_++;
  if (from_checkpoint) {
    out->StartIo(read_io_,
                 ShardFiller::Wanted(*content_, self.restore_directory()));
  } else {
    out->StartIo(read_io_,
                 ShardFiller::Wanted(*content_, configuration_.warm_start()));
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
                         from.empty() ? "initial values" : from));
}

absl::Status Shard::Restored(IoResult result, Time now) {
  RETURN_IF_ERROR(result.status);
  if (const auto* warm =
          dynamic_cast<const v1::ReadWarmStartResult*>(result.head.get())) {
    ASSIGN_OR_RETURN(filler_, ShardFiller::FromWarmStart(
                                  content_.get(), configuration_.seed(), *warm,
                                  std::move(result.payload), &lives_));
    state_ = State::kFilling;
    fill_at_ = now;
    return absl::OkStatus();
  }
  const auto* read =
      dynamic_cast<const v1::ReadSlicesResult*>(result.head.get());
  if (read == nullptr) return absl::InternalError("reading gave no result");
  ASSIGN_OR_RETURN(
      filler_, ShardFiller::FromCheckpoint(content_.get(), *read,
                                           std::move(result.payload),
                                           configuration_.run_id(), &lives_));
  lost_.Restore(*read, configuration_.run_id());
  state_ = State::kFilling;
  fill_at_ = now;
  return absl::OkStatus();
}

}  // namespace paramd
