#include "coordinator/core/checkpoint_accounts.h"

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

uint64_t AcknowledgedAlone(const v1::Manifest& manifest) {
  uint64_t chunks = 0;
  for (const v1::ShardFile& file : manifest.files()) {
    chunks += file.acknowledged_alone();
  }
  return chunks;
}

}  // namespace

void CheckpointAccounts::Found(const v1::Manifest& manifest, bool sync) {
  audit.Found(manifest, sync);
  alone_ = AcknowledgedAlone(manifest);
}

void CheckpointAccounts::SessionsEnd(const JobView& job) {
  if (job.IsSync()) return;
  for (const auto& [index, worker] : job.workers) {
    loss.Ended(index, worker.generation, worker.acknowledged, {});
  }
}

void CheckpointAccounts::Complete(v1::Manifest* manifest, bool sync,
                                  Outbox* out) {
  metrics.Fill(manifest);
  NoteLost(loss.Complete(manifest), out);
  audit.Committing(*manifest, sync);
  next_alone_ = AcknowledgedAlone(*manifest);
}

void CheckpointAccounts::Committed(const v1::SnapshotNumber& number,
                                   Outbox* out) {
  loss.Committed();
  metrics.Committed();
  audit.Committed();
  alone_ = next_alone_;
  if (audit.sentence().empty()) return;
  out->Warn(absl::StrCat("checkpoint ", VersionName(number),
                         " is wrong: ", audit.sentence()),
            {{"checkpoint", VersionName(number)}});
}

void CheckpointAccounts::NoteLost(const std::vector<v1::LostPushes>& lost,
                                  Outbox* out) {
  for (const v1::LostPushes& pushes : lost) {
    out->Warn(
        absl::StrCat("lost: pushes ", pushes.from(), " to ", pushes.to(),
                     " of worker-", pushes.worker(), " generation ",
                     VersionName(pushes.generation()),
                     ", which an earlier life of ps-", pushes.server(),
                     " had acknowledged; it has pushed nothing there since"),
        {{"from", pushes.from()},
         {"to", pushes.to()},
         {"worker", pushes.worker()},
         {"server", pushes.server()}});
  }
}

}  // namespace paramd
