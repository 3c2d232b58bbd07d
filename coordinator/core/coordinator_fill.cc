// The coordinator's part in restoring servers: slices for those that do not see
// the checkpoint, and another checkpoint where one is damaged.
#include <utility>

#include "absl/strings/str_cat.h"

#include "coordinator/core/coordinator.h"
#include "proto/refusal.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void Coordinator::FindCheckpoint(Outbox* out) {
  phase_ = Phase::kFindingCheckpoint;
  auto find = std::make_unique<v1::FindCheckpoint>();
  find->set_run_id(run_id_);
  for (const v1::Version& number : retired_.logged()) {
    *find->add_retired() = number;
  }
  for (const Damaged& damaged : damaged_) {
    *find->add_damaged() = damaged.what;
  }
  if (!options_.job.warm_start().path().empty()) {
    *find->mutable_warm_start() = options_.job.warm_start();
  }
  find->mutable_variables()->Add(options_.variables.begin(),
                                 options_.variables.end());
  find->set_allow_missing(options_.job.checkpoint().allow_missing());
  StartIo(std::move(find), &Coordinator::OnCheckpointFound, out);
}

// Bound: the checkpoints of the directory, each once.
void Coordinator::PassOver(const std::string& why, Outbox* out) {
  out->Note(absl::StrCat("checkpoint ", checkpoint_.path(),
                         " is passed over: ", why));
  Damaged& damaged = damaged_.emplace_back();
  damaged.path = checkpoint_.path();
  *damaged.what.mutable_snapshot() = checkpoint_number_;
  damaged.what.set_why(why);
  FindCheckpoint(out);
}

bool Coordinator::IsPassedOver(const std::string& path) const {
  for (const Damaged& damaged : damaged_) {
    if (damaged.path == path) return true;
  }
  return false;
}

void Coordinator::AdvanceFills(Outbox* out) {
  if (phase_ < Phase::kFilling) return;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    if (!fills_.NeedsRead(s)) continue;
    fill_reads_[next_io_] = {servers_[s].generation, s};
    StartIo(fills_.Read(s), &Coordinator::OnSlicesRead, out);
  }
}

void Coordinator::OnSlicesRead(const IoResult& result, Time now, Outbox* out) {
  const auto found = fill_reads_.find(result.io);
  const auto [generation, server] = found->second;
  fill_reads_.erase(found);
  const std::string path = servers_[server].restore_directory;
  if (generation != servers_[server].generation || IsPassedOver(path)) return;
  absl::Status status = result.status;
  const auto* read =
      DynamicCastToGenerated<v1::ReadSlicesResult>(result.head.get());
  if (status.ok() && read == nullptr) {
    status = absl::InternalError("reading gave no result");
  }
  if (status.ok()) {
    status = fills_.Done(server, generation, *read, result.payload);
  }
  if (status.ok()) return;
  fills_.End(server);
  const bool may_pass = absl::IsUnavailable(status);
  damage_may_pass_ |= may_pass;
  servers_[server].why =
      absl::StrCat("'", path, "' can't be read for it: ", status.message());
  OnNotRestored(server, may_pass || absl::IsDataLoss(status), now, out);
}

// A checkpoint is deleted when a later one is committed, which may be known only
// after the server failed; or never, if the answer was lost.
void Coordinator::OnNotRestored(uint32_t index, bool is_damaged, Time now,
                                Outbox* out) {
  const Server& server = servers_[index];
  const std::string why = absl::StrCat("ps-", index, ": ", server.why);
  if (server.restore_directory != checkpoint_.path()) {
    OnNewServer(index, now, out);
  } else if (is_damaged && phase_ == Phase::kFilling) {
    PassOver(why, out);
  } else if (!snapshot_.has_value() ||
             snapshot_->phase() != SnapshotRound::Phase::kCommitting) {
    out->Exit(absl::AbortedError(absl::StrCat(
        why, "; the next coordinator looks for another checkpoint")));
  }
}

}  // namespace paramd
