// The coordinator's part in deleting old checkpoints.
#include <memory>
#include <utility>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "proto/refusal.h"

namespace paramd {

void Coordinator::Retire(const v1::CommitCheckpointResult& committed,
                         Outbox* out) {
  const RetiredCheckpoints::Work work = retired_.Begin(committed.to_retire());
  for (const v1::Version& old : work.to_log) {
    v1::LogEntry entry;
    *entry.mutable_retired() = old;
    Append(std::move(entry), &Coordinator::OnRetired, out);
  }
  if (!work.to_delete.empty()) DeleteCheckpoints(work.to_delete, out);
}

void Coordinator::OnRetired(const IoResult& result, Time /*now*/, Outbox* out) {
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  DeleteCheckpoints({retired_.Logged()}, out);
}

void Coordinator::DeleteCheckpoints(const std::vector<v1::Version>& retired,
                                    Outbox* out) {
  auto remove = std::make_unique<v1::DeleteCheckpoints>();
  for (const v1::Version& old : retired) *remove->add_snapshots() = old;
  ++deletions_;
  StartIo(std::move(remove), &Coordinator::OnDeleted, out);
}

// One that stays is named by the next commit again.
void Coordinator::OnDeleted(const IoResult& /*result*/, Time /*now*/,
                            Outbox* /*out*/) {
  --deletions_;
}

}  // namespace paramd
