#include "tests/sim/push_ledger.h"

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {

absl::Status PushLedger::See(PeerId from,
                             const google::protobuf::Message& head) {
  const auto* request =
      google::protobuf::DynamicCastToGenerated<v1::PushRequest>(&head);
  if (request == nullptr) return absl::OkStatus();
  const v1::Header& header = request->header();
  const std::string name =
      absl::StrCat("push ", header.sequence(), " of ", PeerName(from),
                   " as generation ", VersionName(header.generation()));
  if (from != PeerId::Worker(header.worker())) {
    return absl::DataLossError(
        absl::StrCat(name, " says it is of worker ", header.worker()));
  }
  const Push push = {header.worker(), header.generation().term(),
                     header.generation().counter(), header.sequence()};
  // The offset is that up to which the input is used by this push.
  const uint64_t batch = job_.config().batch_per_replica();
  const BatchPlace place = {request->epoch(),
                            (request->offset() - 1) / batch * batch};
  const auto known = batches_.find(push);
  if (known != batches_.end()) {
    if (known->second == place) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(name, " was of another batch"));
  }
  Push before = push;
  --std::get<3>(before);
  if (header.sequence() != 1 && batches_.count(before) == 0) {
    return absl::DataLossError(absl::StrCat(name, " leaves a gap"));
  }
  if (job_.batches().count(place) == 0) {
    return absl::DataLossError(absl::StrCat(name, " is of no batch"));
  }
  batches_[push] = place;
  return absl::OkStatus();
}

// A worker leaves only when all its pushes are in.
void PushLedger::AddEarlierSessions(const v1::SavedSession& session,
                                    std::multiset<BatchPlace>* batches) const {
  const uint64_t term = session.generation().term();
  const auto begin = batches_.lower_bound({session.worker(), term, 0, 0});
  const auto end = batches_.lower_bound(
      {session.worker(), term, session.generation().counter(), 0});
  for (auto it = begin; it != end; ++it) batches->insert(it->second);
}

absl::StatusOr<std::multiset<BatchPlace>> PushLedger::BatchesUpTo(
    const v1::Manifest& manifest) const {
  std::multiset<BatchPlace> batches;
  for (const v1::SavedSession& session : manifest.sessions()) {
    if (session.generation().term() < manifest.snapshot().term()) continue;
    AddEarlierSessions(session, &batches);
    for (uint64_t n = 1; n <= session.sequence(); ++n) {
      const auto found =
          batches_.find({session.worker(), session.generation().term(),
                         session.generation().counter(), n});
      if (found == batches_.end()) {
        return absl::DataLossError(absl::StrCat(
            "the manifest has push ", n, " of worker-", session.worker(),
            " as generation ", VersionName(session.generation()),
            ", which nobody sent"));
      }
      batches.insert(found->second);
    }
  }
  return batches;
}

}  // namespace paramd
