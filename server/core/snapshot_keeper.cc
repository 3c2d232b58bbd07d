#include "server/core/snapshot_keeper.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/shard_description.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "server/core/frozen_shard.h"

namespace paramd {
namespace {

// Written is answered before the coordinator's call ends.
constexpr absl::Duration kMostWrittenPark = absl::Seconds(5);
// For the head of a reply.
constexpr size_t kReplyHeadBytes = 1024;

}  // namespace

// ---- what is told with other calls ------------------------------------------

void SnapshotKeeper::OnRecall(uint64_t term, ShardTurn* turn) {
  if (turn->data.content == nullptr) return;
  v1::SnapshotNumber first;
  first.set_term(term);
  turn->data.content->fork().Hear(first);
}

void SnapshotKeeper::OnConfigure(const v1::ConfigureRequest& request,
                                 ShardTurn* turn) {
  const v1::SnapshotNumber& newest = request.header().snapshot();
  if (turn->data.content != nullptr) {
    turn->data.content->fork().Hear(newest);
    turn->data.content->fork().End(request.committed());
  }
  // Once it is committed, or never will be, nobody fetches it any more.
  if (snapshot_.has_value() && (!(request.committed() < snapshot_->number) ||
                                newest > snapshot_->number)) {
    snapshot_->unseen.reset();
    snapshot_->description.reset();
  }
  // One snapshot is open at a time: where a later one is, and this one was not
  // committed, it never will be. What is pushed is applied again, or no worker
  // would ever reach the later one's cut.
  if (newest > drained_by_ && request.committed() < drained_by_) {
    drained_by_.Clear();
  }
}

void SnapshotKeeper::AnswerConfigure(const v1::ConfigureRequest& request,
                                     v1::ConfigureReply* reply,
                                     ShardTurn* turn) const {
  reply->set_draining(view_.draining);
  *reply->mutable_drained_by() = drained_by_;
  if (IsZero(drained_by_) || request.committed() < drained_by_) return;
  turn->out->Note(absl::StrCat("drained: all of ", view_.Name(),
                               " is in checkpoint ", VersionName(drained_by_)));
  turn->out->Exit(absl::OkStatus());
}

absl::Status SnapshotKeeper::CheckCaller(const v1::Header& header) const {
  RETURN_IF_ERROR(view_.checks.CheckRunning());
  return view_.checks.CheckTerm(
      std::max(header.term(), header.snapshot().term()));
}

// ---- frozen -----------------------------------------------------------------

absl::Status SnapshotKeeper::OnSeal(const v1::SealRequest& request,
                                    v1::SealReply* reply, ShardTurn* turn) {
  const v1::SnapshotNumber& number = request.header().snapshot();
  RETURN_IF_ERROR(CheckCaller(request.header()));
  RETURN_IF_ERROR(view_.checks.CheckFilled());
  if (view_.data.step != nullptr && view_.data.step->applying()) {
    return RefuseForNow(v1::Refusal::RETRY, view_.Name(),
                        view_.options.retry_after,
                        absl::StrCat(view_.Name(), " is applying a step"));
  }
  RETURN_IF_ERROR(CheckSeal(request));
  ASSIGN_OR_RETURN(const bool again, IsKept(request));
  *reply->mutable_snapshot() = number;
  if (again) return absl::OkStatus();
  snapshot_.reset();
  AnswerParked(turn);
  if (view_.draining && request.stopped()) drained_by_ = number;
  Freeze(request, turn);
  return absl::OkStatus();
}

absl::Status SnapshotKeeper::CheckSeal(const v1::SealRequest& request) const {
  const v1::SnapshotNumber& number = request.header().snapshot();
  const int index = static_cast<int>(view_.options.index);
  if (index >= request.server_generations_size() ||
      request.server_generations(index) != view_.generation) {
    return Invalid(
        view_.Name(),
        absl::StrCat("snapshot ", VersionName(number),
                     " was not opened under generation ",
                     VersionName(view_.generation), " of ", view_.Name()));
  }
  const std::string name =
      ServerFileName(view_.options.index, view_.configuration.servers_size());
  if (request.file_name() != name) {
    return Invalid(VersionName(number),
                   absl::StrCat("snapshot ", VersionName(number), " of ",
                                view_.Name(), " is to be written into '",
                                absl::CHexEscape(request.file_name()),
                                "'; its file is '", name, "'"));
  }
  // Without one nobody could tell whose the directory is.
  if (request.nonce() == 0) {
    return Invalid(VersionName(number),
                   absl::StrCat("the directory of snapshot ",
                                VersionName(number), " has no nonce"));
  }
  return view_.checks.CheckSnapshot(number);
}

absl::StatusOr<bool> SnapshotKeeper::IsKept(
    const v1::SealRequest& request) const {
  const v1::SnapshotNumber& number = request.header().snapshot();
  const SnapshotFork& fork = view_.data.content->fork();
  if (snapshot_.has_value() && number < snapshot_->number) {
    return Refuse(
        v1::Refusal::SUPERSEDED, VersionName(number),
        absl::StrCat("snapshot ", VersionName(snapshot_->number), " is known"));
  }
  if (!snapshot_.has_value() || number != snapshot_->number) {
    if (fork.MaySeal(number)) return false;
    return Refuse(v1::Refusal::SUPERSEDED, VersionName(number),
                  absl::StrCat("snapshot ", VersionName(number),
                               " has ended at ", view_.Name(), ", which knows ",
                               VersionName(fork.number())));
  }
  if (request.directory() == snapshot_->directory) return true;
  return Invalid(VersionName(number),
                 absl::StrCat("snapshot ", VersionName(number),
                              " was sealed before into another directory"));
}

void SnapshotKeeper::Freeze(const v1::SealRequest& request, ShardTurn* turn) {
  ShardContent* const content = turn->data.content.get();
  snapshot_.emplace();
  snapshot_->number = request.header().snapshot();
  snapshot_->directory = request.directory();
  snapshot_->file.set_name(request.file_name());
  snapshot_->file.set_server(view_.options.index);
  *snapshot_->file.mutable_server_generation() = view_.generation;
  snapshot_->file.set_acknowledged_alone(turn->data.acknowledged_alone);
  turn->data.lost.Save(snapshot_->file.mutable_lost());
  content->fork().Seal(snapshot_->number, content->owned());
  FrozenShard frozen = paramd::Freeze(request, snapshot_->file, content);
  snapshot_->io =
      turn->StartIo(std::move(frozen.head), std::move(frozen.payload));
}

// ---- written ----------------------------------------------------------------

bool SnapshotKeeper::Wants(IoId io) const {
  return snapshot_.has_value() && io == snapshot_->io && !snapshot_->ended;
}

void SnapshotKeeper::OnWriteEnded(IoResult result, ShardTurn* turn) {
  const auto* written =
      dynamic_cast<const v1::WriteShardResult*>(result.head.get());
  snapshot_->ended = true;
  snapshot_->written = result.status;
  if (result.status.ok() && written == nullptr) {
    snapshot_->written = absl::InternalError("writing gave no result");
  }
  if (snapshot_->written.ok()) {
    snapshot_->file = written->file();
    if (written->unseen()) {
      snapshot_->unseen.emplace(std::move(result.payload));
    }
    if (snapshot_->file.ByteSizeLong() > view_.options.max_description_bytes) {
      snapshot_->description.emplace(
          BufferChain{Buffer::Copy(snapshot_->file.SerializeAsString())});
    }
  }
  turn->data.content->fork().Release();
  AnswerParked(turn);
}

void SnapshotKeeper::OnWritten(CallId call, const v1::WrittenRequest& request,
                               ShardTurn* turn) {
  const absl::Status status = CheckWritten(request);
  if (!status.ok()) return turn->Refuse(call, status);
  if (snapshot_->ended) return AnswerWritten(call, turn);
  parked_.push_back({call, turn->now + std::min(view_.settings().park_timeout,
                                                kMostWrittenPark)});
}

absl::Status SnapshotKeeper::CheckWritten(
    const v1::WrittenRequest& request) const {
  const v1::SnapshotNumber& number = request.header().snapshot();
  RETURN_IF_ERROR(CheckCaller(request.header()));
  if (!snapshot_.has_value() || number != snapshot_->number) {
    return Refuse(
        v1::Refusal::SUPERSEDED, VersionName(number),
        snapshot_.has_value()
            ? absl::StrCat("snapshot ", VersionName(number), " is not open; ",
                           VersionName(snapshot_->number), " is")
            : absl::StrCat("snapshot ", VersionName(number), " is not open"));
  }
  if (!snapshot_->ended && parked_.size() == kMostParked) {
    return Refuse(v1::Refusal::OVER_LIMIT, "written",
                  absl::StrCat(kMostParked, " calls wait for snapshot ",
                               VersionName(number)));
  }
  return absl::OkStatus();
}

void SnapshotKeeper::Drop() {
  snapshot_.reset();
  drained_by_.Clear();
}

void SnapshotKeeper::AnswerParked(ShardTurn* turn) {
  for (const Parked& parked : std::exchange(parked_, {})) {
    AnswerWritten(parked.call, turn);
  }
}

// Those parked first are due first.
void SnapshotKeeper::AnswerLate(ShardTurn* turn) {
  while (!parked_.empty() && parked_.front().deadline <= turn->now) {
    AnswerWritten(parked_.front().call, turn);
    parked_.erase(parked_.begin());
  }
}

Time SnapshotKeeper::next_tick() const {
  return parked_.empty() ? Time::Never() : parked_.front().deadline;
}

void SnapshotKeeper::AnswerWritten(CallId call, ShardTurn* turn) const {
  const absl::Status why_not = WhyNotWritten();
  if (!why_not.ok()) return turn->Refuse(call, why_not);
  auto reply = std::make_unique<v1::WrittenReply>();
  *reply->mutable_snapshot() = snapshot_->number;
  if (!snapshot_->description.has_value()) {
    *reply->mutable_file() = snapshot_->file;
  }
  reply->set_unseen(snapshot_->unseen.has_value());
  turn->out->Reply(call, std::move(reply));
}

absl::Status SnapshotKeeper::WhyNotWritten() const {
  if (!snapshot_.has_value()) {
    return Refuse(v1::Refusal::SUPERSEDED, "snapshot",
                  "the snapshot was given up for a later one");
  }
  const std::string number = VersionName(snapshot_->number);
  if (!snapshot_->ended) {
    return RefuseForNow(
        v1::Refusal::WAIT, view_.Name(), absl::ZeroDuration(),
        absl::StrCat(view_.Name(), " is still writing snapshot ", number));
  }
  if (snapshot_->written.ok()) return absl::OkStatus();
  return Invalid(snapshot_->file.name(),
                 absl::StrCat(view_.Name(), " could not write snapshot ",
                              number, ": ", snapshot_->written.message()));
}

// ---- fetched ----------------------------------------------------------------

const LocalShardFile* SnapshotKeeper::Kept(const v1::SnapshotNumber& number,
                                           uint64_t offset) const {
  if (!snapshot_.has_value() || number != snapshot_->number) return nullptr;
  const absl::optional<LocalShardFile>& kept =
      offset < kDescriptionOffset ? snapshot_->unseen : snapshot_->description;
  return kept.has_value() ? &*kept : nullptr;
}

absl::Status SnapshotKeeper::OnFetch(const v1::FetchShardRequest& request,
                                     v1::FetchShardReply* reply,
                                     BufferChain* payload) const {
  const v1::SnapshotNumber& number = request.header().snapshot();
  RETURN_IF_ERROR(CheckCaller(request.header()));
  const LocalShardFile* const file = Kept(number, request.offset());
  if (file == nullptr) {
    return Refuse(v1::Refusal::SUPERSEDED, VersionName(number),
                  absl::StrCat(view_.Name(), " keeps no file of snapshot ",
                               VersionName(number)));
  }
  const uint64_t begin =
      request.offset() < kDescriptionOffset ? 0 : kDescriptionOffset;
  const uint64_t offset = request.offset() - begin;
  const uint64_t most =
      std::max(view_.options.max_reply_bytes, 2 * kReplyHeadBytes);
  if (offset > file->total() || request.limit() == 0) {
    return Invalid(
        VersionName(number),
        absl::StrCat(request.limit(), " bytes from ", offset, " are asked of ",
                     snapshot_->file.name(), begin > 0 ? "'s description" : "",
                     ", which has ", file->total()));
  }
  *payload = file->Window(
      offset, std::min<uint64_t>(request.limit(), most - kReplyHeadBytes));
  *reply->mutable_snapshot() = number;
  reply->set_offset(request.offset());
  reply->set_total(begin + file->total());
  return absl::OkStatus();
}

}  // namespace paramd
