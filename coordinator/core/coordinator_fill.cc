// The coordinator's part in restoring servers: slices for those that do not see
// the checkpoint, and another checkpoint where one is damaged.
#include <utility>

#include "absl/strings/str_cat.h"

#include "coordinator/core/dispatcher.h"
#include "proto/refusal.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void Dispatcher::FindCheckpoint(Turn* turn) {
  phase_ = JobPhase::kFindingCheckpoint;
  auto find = std::make_unique<v1::FindCheckpoint>();
  find->set_run_id(configuration().run_id());
  for (const v1::Version& number : retirement_.logged()) {
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
  turn->StartIo(std::move(find), Then(this, &Dispatcher::OnCheckpointFound));
}

// Bound: the checkpoints of the directory, each once.
void Dispatcher::PassOver(const std::string& why, Turn* turn) {
  turn->out->Note(absl::StrCat("checkpoint ", checkpoints_.newest().path(),
                               " is passed over: ", why));
  Damaged& damaged = damaged_.emplace_back();
  damaged.path = checkpoints_.newest().path();
  *damaged.what.mutable_snapshot() = checkpoints_.newest().number;
  damaged.what.set_why(why);
  FindCheckpoint(turn);
}

bool Dispatcher::IsPassedOver(const std::string& path) const {
  for (const Damaged& damaged : damaged_) {
    if (damaged.path == path) return true;
  }
  return false;
}

void Dispatcher::AdvanceFills(Turn* turn) {
  if (phase_ < JobPhase::kFilling) return;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    if (!fills_.NeedsRead(s)) continue;
    turn->StartIo(fills_.Read(s),
                  [this, s, generation = servers_[s].generation](
                      const IoResult& result, Turn* later) {
                    OnSlicesRead(s, generation, result, later);
                  });
  }
}

void Dispatcher::OnSlicesRead(uint32_t server, const v1::Version& generation,
                              const IoResult& result, Turn* turn) {
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
  OnNotRestored(server, may_pass || absl::IsDataLoss(status), turn);
}

// A checkpoint is deleted when a later one is committed, which may be known
// only after the server failed; or never, if the answer was lost.
void Dispatcher::OnNotRestored(uint32_t index, bool is_damaged, Turn* turn) {
  const Server& server = servers_[index];
  const std::string why = absl::StrCat("ps-", index, ": ", server.why);
  if (server.restore_directory != checkpoints_.newest().path()) {
    OnNewServer(index, turn);
  } else if (is_damaged && phase_ == JobPhase::kFilling) {
    PassOver(why, turn);
  } else if (checkpoints_.round() == nullptr ||
             checkpoints_.round()->phase() !=
                 SnapshotRound::Phase::kCommitting) {
    turn->out->Exit(absl::AbortedError(absl::StrCat(
        why, "; the next coordinator looks for another checkpoint")));
  }
}

}  // namespace paramd
