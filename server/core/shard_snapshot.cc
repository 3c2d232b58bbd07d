// A shard's dealings with snapshots: frozen, written, told.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "server/core/frozen_shard.h"
#include "server/core/shard.h"

namespace paramd {
namespace {

// Written is answered before the coordinator's call ends.
constexpr absl::Duration kMostWrittenPark = absl::Seconds(5);
// For the head of a reply.
constexpr size_t kReplyHeadBytes = 1024;

absl::Status Invalid(absl::string_view entity, absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, entity, sentence);
}

}  // namespace

absl::Status Shard::Seal(const v1::SealRequest& request, Outbox* out,
                         v1::SealReply* reply) {
  const v1::Version& number = request.header().snapshot();
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckTerm(std::max(request.header().term(), number.term())));
  RETURN_IF_ERROR(CheckFilled());
  if (sync_ != nullptr && sync_->applying()) {
    return RefuseForNow(v1::Refusal::RETRY, Name(), options_.retry_after,
                        absl::StrCat(Name(), " is applying a step"));
  }
  RETURN_IF_ERROR(CheckSeal(request));
  if (snapshot_.has_value() && number < snapshot_->number) {
    return Refuse(
        v1::Refusal::SUPERSEDED, VersionName(number),
        absl::StrCat("snapshot ", VersionName(snapshot_->number), " is known"));
  }
  const bool again = snapshot_.has_value() && number == snapshot_->number;
  if (!again && !content_->fork().MaySeal(number)) {
    return Refuse(v1::Refusal::SUPERSEDED, VersionName(number),
                  absl::StrCat("snapshot ", VersionName(number),
                               " has ended at ", Name(), ", which knows ",
                               VersionName(content_->fork().number())));
  }
  *reply->mutable_snapshot() = number;
  if (again) {
    if (request.directory() == snapshot_->directory) return absl::OkStatus();
    return Invalid(VersionName(number),
                   absl::StrCat("snapshot ", VersionName(number),
                                " was sealed before into another directory"));
  }
  snapshot_.reset();
  AnswerParked(out);
  if (draining_ && request.stopped()) drained_by_ = number;

  snapshot_.emplace();
  snapshot_->number = number;
  snapshot_->directory = request.directory();
  snapshot_->io = next_io_++;
  snapshot_->file.set_name(request.file_name());
  snapshot_->file.set_server(options_.index);
  *snapshot_->file.mutable_server_generation() = generation_;
  lost_.Save(snapshot_->file.mutable_lost());
  content_->fork().Seal(number, content_->owned());
  FrozenShard frozen = Freeze(request, snapshot_->file, content_.get());
  out->StartIo(snapshot_->io, std::move(frozen.head),
               std::move(frozen.payload));
  term_ = std::max(request.header().term(), number.term());
  return absl::OkStatus();
}

absl::Status Shard::CheckSeal(const v1::SealRequest& request) const {
  const v1::Version& number = request.header().snapshot();
  const int index = static_cast<int>(options_.index);
  if (index >= request.server_generations_size() ||
      request.server_generations(index) != generation_) {
    return Invalid(Name(),
                   absl::StrCat("snapshot ", VersionName(number),
                                " was not opened under generation ",
                                VersionName(generation_), " of ", Name()));
  }
  const std::string name =
      ServerFileName(options_.index, configuration_.servers_size());
  if (request.file_name() != name) {
    return Invalid(VersionName(number),
                   absl::StrCat("snapshot ", VersionName(number), " of ",
                                Name(), " is to be written into '",
                                absl::CHexEscape(request.file_name()),
                                "'; its file is '", name, "'"));
  }
  // Without one nobody could tell whose the directory is.
  if (request.nonce() == 0) {
    return Invalid(VersionName(number),
                   absl::StrCat("the directory of snapshot ",
                                VersionName(number), " has no nonce"));
  }
  return CheckSnapshot(number);
}

void Shard::Written(CallId call, const v1::WrittenRequest& request, Time now,
                    Outbox* out) {
  const v1::Version& number = request.header().snapshot();
  absl::Status status = CheckRunning();
  status.Update(CheckTerm(std::max(request.header().term(), number.term())));
  if (status.ok() && (!snapshot_.has_value() || number != snapshot_->number)) {
    status = Refuse(
        v1::Refusal::SUPERSEDED, VersionName(number),
        snapshot_.has_value()
            ? absl::StrCat("snapshot ", VersionName(number), " is not open; ",
                           VersionName(snapshot_->number), " is")
            : absl::StrCat("snapshot ", VersionName(number), " is not open"));
  }
  if (status.ok() && !snapshot_->ended && parked_.size() == kMostParked) {
    status = Refuse(v1::Refusal::OVER_LIMIT, "written",
                    absl::StrCat(kMostParked, " calls wait for snapshot ",
                                 VersionName(number)));
  }
  if (!status.ok()) return RefuseCall(call, status, out);
  if (snapshot_->ended) return AnswerWritten(call, out);
  parked_.push_back(
      {call, now + std::min(options_.park_timeout, kMostWrittenPark)});
}

void Shard::AnswerParked(Outbox* out) {
  for (const Parked& parked : std::exchange(parked_, {})) {
    AnswerWritten(parked.call, out);
  }
}

void Shard::AnswerWritten(CallId call, Outbox* out) const {
  if (!snapshot_.has_value()) {
    return RefuseCall(call,
                      Refuse(v1::Refusal::SUPERSEDED, "snapshot",
                             "the snapshot was given up for a later one"),
                      out);
  }
  const std::string number = VersionName(snapshot_->number);
  if (!snapshot_->ended) {
    return RefuseCall(
        call,
        RefuseForNow(
            v1::Refusal::WAIT, Name(), absl::ZeroDuration(),
            absl::StrCat(Name(), " is still writing snapshot ", number)),
        out);
  }
  if (!snapshot_->written.ok()) {
    return RefuseCall(
        call,
        Invalid(snapshot_->file.name(),
                absl::StrCat(Name(), " could not write snapshot ", number, ": ",
                             snapshot_->written.message())),
        out);
  }
  auto reply = std::make_unique<v1::WrittenReply>();
  *reply->mutable_snapshot() = snapshot_->number;
  *reply->mutable_file() = snapshot_->file;
  reply->set_unseen(snapshot_->unseen.has_value());
  out->Reply(call, std::move(reply));
}

absl::Status Shard::FetchShard(const v1::FetchShardRequest& request,
                               v1::FetchShardReply* reply,
                               BufferChain* payload) const {
  const v1::Version& number = request.header().snapshot();
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(
      CheckTerm(std::max(request.header().term(), number.term())));
  if (!snapshot_.has_value() || number != snapshot_->number ||
      !snapshot_->unseen.has_value()) {
    return Refuse(v1::Refusal::SUPERSEDED, VersionName(number),
                  absl::StrCat(Name(), " keeps no file of snapshot ",
                               VersionName(number)));
  }
  const UnseenFile& file = *snapshot_->unseen;
  const uint64_t most = std::max(options_.max_reply_bytes, 2 * kReplyHeadBytes);
  if (request.offset() > file.total() || request.limit() == 0) {
    return Invalid(
        VersionName(number),
        absl::StrCat(request.limit(), " bytes from ", request.offset(),
                     " are asked of ", snapshot_->file.name(),
                     ", which has ", file.total()));
  }
  *payload = file.Window(
      request.offset(),
      std::min<uint64_t>(request.limit(), most - kReplyHeadBytes));
  *reply->mutable_snapshot() = number;
  reply->set_offset(request.offset());
  reply->set_total(file.total());
  return absl::OkStatus();
}

// Once it is committed, or never will be, nobody fetches it any more.
void Shard::ForgetUnseen(const v1::ConfigureRequest& request) {
  if (!snapshot_.has_value()) return;
  if (!(request.committed() < snapshot_->number) ||
      request.header().snapshot() > snapshot_->number) {
    snapshot_->unseen.reset();
  }
}

}  // namespace paramd
