#include "server/core/replication.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

// Clocks of two machines don't run alike.
constexpr absl::Duration kGrace = absl::Milliseconds(250);
constexpr absl::Duration kMostBackupPatience = absl::Seconds(2);

}  // namespace

void Replication::Wake(Time now) {
  const BackupStream* const stream = view_.data.backup.get();
  serving_ = absl::OkStatus();
  if (stream != nullptr && stream->deposed()) {
    serving_ = view_.NotReady(
        "coordinator",
        absl::StrCat("another place is ", view_.Name(), " by now"));
  } else if (stream != nullptr && stream->stopped()) {
    serving_ = view_.NotReady(
        "coordinator",
        absl::StrCat(view_.Name(), " is being handed over to its backup"));
  } else if (stream != nullptr && stream->whole() &&
             now > stream->confirmed_until()) {
    serving_ = view_.NotReady(
        view_.Name(),
        absl::StrCat("the backup of ", view_.Name(),
                     " has not said lately that it has not taken over"));
  } else if (now < serves_from_) {
    serving_ = view_.NotReady(
        view_.Name(),
        absl::StrCat(view_.Name(),
                     " waits until its last place has certainly stopped"));
  }
}

std::vector<BackupStream::Answer> Replication::OnConfiguration(
    v1::ReplicateRequest::State state, ShardTurn* turn) {
  if (!IsZero(intake_.since())) intake_.End(turn);
  const v1::ServerMember& self = *view_.FindSelf(view_.configuration);
  ShardData& data = turn->data;
  std::vector<BackupStream::Answer> free;
  const bool goes_on = data.backup != nullptr && self.has_backup() &&
                       data.backup->backup().since() == self.backup().since() &&
                       data.backup->life() == view_.generation;
  if (data.backup != nullptr && !goes_on) {
    if (data.backup->life() == view_.generation) {
      // It was dropped, which is durable: this server alone has them.
      free = data.backup->DropAnswers();
      data.acknowledged_alone += BackupStream::CountPushes(free);
      state.set_acknowledged_alone(data.acknowledged_alone);
    }
    DropStream(turn);
  }
  if (self.has_backup() && data.backup == nullptr) {
    data.backup = std::make_unique<BackupStream>(
        self.backup(), view_.generation,
        std::min(view_.settings().lease / 2, kMostBackupPatience), &next_call_);
  }
  data.alone = self.has_peer() && !self.has_backup() ? 1 : 0;
  if (data.backup != nullptr) {
    data.backup->set_member(self.backup().member());
    data.backup->TellState(std::move(state), turn->now);
  }
  Wake(turn->now);
  return free;
}

void Replication::DropStream(ShardTurn* turn) {
  if (turn->data.backup == nullptr) return;
  for (const BackupStream::Answer& answer : turn->data.backup->DropAnswers()) {
    const std::string why = "the server is in another place by now";
    // A push without a reason: whoever takes over may have it.
    turn->Refuse(answer.call, answer.decided != nullptr
                                  ? view_.NotReady("coordinator", why)
                                  : absl::UnavailableError(why));
  }
  told_before_ += turn->data.backup->bytes_told();
  turn->data.backup.reset();
}

void Replication::BeginAsBackup(ShardTurn* turn) {
  DropStream(turn);
  intake_.End(turn);
  intake_.Begin(view_.FindSelf(view_.configuration)->backup().since());
  turn->data.alone = 0;
  serves_from_ = Time();
  Wake(turn->now);
}

void Replication::Forget(ShardTurn* turn) {
  DropStream(turn);
  intake_.End(turn);
  turn->data.alone = 0;
  serves_from_ = Time();
  Wake(turn->now);
}

bool Replication::MayTakeOver(const v1::ServerMember& self) const {
  return !IsZero(self.took_over()) && self.took_over() == intake_.since() &&
         intake_.whole();
}

void Replication::TakeOver(ShardTurn* turn) {
  const bool has_ended = view_.FindSelf(view_.configuration)->last_has_ended();
  serves_from_ =
      has_ended ? Time() : intake_.answered() + BackupStream::kLease + kGrace;
  intake_.End(turn);
  Wake(turn->now);
}

void Replication::StopFor(const v1::ConfigurationVersion& since,
                          ShardTurn* turn) {
  BackupStream* const stream = turn->data.backup.get();
  const bool is_it = stream != nullptr && stream->backup().since() == since;
  if (!is_it || stream->stopped() || !stream->whole() || stream->diverged() ||
      !view_.IsFilled()) {
    return;
  }
  stream->Stop();
  turn->out->Note(absl::StrCat(view_.Name(), " stops here: its backup has to ",
                               "take over"));
  Wake(turn->now);
}

void Replication::OnReply(const Message& message, ShardTurn* turn) {
  if (turn->data.backup != nullptr) {
    turn->data.backup->OnReply(message, turn->now);
  }
}

void Replication::Advance(ShardTurn* turn) const {
  BackupStream* const backup = turn->data.backup.get();
  if (backup == nullptr) return;
  if (view_.draining) backup->TellLeaving(turn->now);
  // A slice is cut between two steps, and a block is proven when the step that
  // is decided is in it.
  const SyncStep* const step = turn->data.step.get();
  const bool may_tell =
      view_.IsFilled() &&
      (step == nullptr ||
       (backup->has_cut() ? !step->applying() : step->is_between()));
  backup->Advance(may_tell ? turn->data.content.get() : nullptr, turn->now,
                  turn->out);
}

Time Replication::next_tick() const {
  return view_.data.backup == nullptr ? Time::Never()
                                      : view_.data.backup->next_tick();
}

void Replication::AnswerConfigure(v1::ConfigureReply* reply) const {
  const BackupStream* const stream = view_.data.backup.get();
  if (stream == nullptr) return;
  v1::BackupReport* const report = reply->mutable_backup();
  *report->mutable_since() = stream->backup().since();
  report->set_whole(stream->whole() && !stream->diverged());
  report->set_lost(stream->lost());
}

v1::ReplicaRole Replication::Role() const {
  if (view_.fill_state == FillState::kBackup) return v1::REPLICA_BACKUP;
  if (view_.fill_state == FillState::kNone) return v1::REPLICA_IDLE;
  const BackupStream* const stream = view_.data.backup.get();
  if (stream == nullptr) return v1::REPLICA_ALONE;
  return stream->backup().member() ? v1::REPLICA_PRIMARY : v1::REPLICA_FILLS;
}

void Replication::FillStatus(v1::ServerStats* stats) const {
  if (!view_.options.peer.has_value()) return;
  stats->set_index(view_.options.index);
  stats->set_replica(Role());
  stats->set_acknowledged_alone(view_.data.acknowledged_alone);
  const BackupStream* const stream = view_.data.backup.get();
  stats->set_replicated_bytes(told_before_ +
                              (stream == nullptr ? 0 : stream->bytes_told()));
  if (stream != nullptr) stats->set_replicating(stream->waiting());
}

}  // namespace paramd
