#include "coordinator/core/retirement.h"

#include <memory>
#include <utility>

namespace paramd {

void Retirement::DeleteLogged(Turn* turn) {
  if (!retired_.logged().empty()) Delete(retired_.logged(), turn);
}

void Retirement::Retire(
    const google::protobuf::RepeatedPtrField<v1::SnapshotNumber>& old,
    Turn* turn) {
  const RetiredCheckpoints::Work work = retired_.Begin(old);
  for (const v1::SnapshotNumber& number : work.to_log) {
    v1::LogEntry entry;
    *entry.mutable_retired() = number;
    turn->Append(std::move(entry), Then(this, &Retirement::OnLogged));
  }
  if (!work.to_delete.empty()) Delete(work.to_delete, turn);
}

void Retirement::OnLogged(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  Delete({retired_.Logged()}, turn);
}

// One that stays is named by the next commit again.
void Retirement::Delete(const std::vector<v1::SnapshotNumber>& retired,
                        Turn* turn) {
  auto remove = std::make_unique<v1::DeleteCheckpoints>();
  for (const v1::SnapshotNumber& old : retired) *remove->add_snapshots() = old;
  ++deletions_;
  turn->StartIo(std::move(remove),
                [this](const IoResult&, Turn*) { --deletions_; });
}

}  // namespace paramd
