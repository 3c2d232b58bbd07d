#include "coordinator/core/checkpoint_accounts.h"

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {

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
}

void CheckpointAccounts::Committed(const v1::SnapshotNumber& number,
                                   Outbox* out) {
  loss.Committed();
  metrics.Committed();
  audit.Committed();
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
