#include "tests/sim/push_ledger.h"

#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {

std::string SessionName(const SessionKey& session) {
  return absl::StrCat("worker-", session.worker, " as generation ",
                      session.generation.first, "-", session.generation.second);
}

std::string PushLedger::NameOf(PushIndex index) const {
  const Push& push = pushes_[index];
  return absl::StrCat("push ", push.sequence, " of ",
                      SessionName(push.session));
}

absl::StatusOr<PushLedger::PushIndex> PushLedger::See(
    PeerId from, const v1::PushRequest& request) {
  const v1::Header& header = request.header();
  const SessionKey session = {header.worker(), NumberOf(header.generation())};
  const std::string name =
      absl::StrCat("push ", header.sequence(), " of ", SessionName(session));
  if (from != PeerId::Worker(header.worker())) {
    return absl::DataLossError(
        absl::StrCat(name, " comes from ", PeerName(from)));
  }
  const BatchPlace place = {request.epoch(), request.input_begin()};
  const auto [known, is_new] =
      by_sequence_.try_emplace({session, header.sequence()}, pushes_.size());
  if (!is_new) {
    const Push& push = pushes_[known->second];
    if (push.batch == place && push.stamp == NumberOf(header.snapshot())) {
      return known->second;
    }
    return absl::DataLossError(absl::StrCat(
        name, push.batch == place ? " had another stamp when it was first sent"
                                  : " was of another batch"));
  }
  if (header.sequence() != 1 &&
      by_sequence_.count({session, header.sequence() - 1}) == 0) {
    return absl::DataLossError(absl::StrCat(name, " leaves a gap"));
  }
  if (job_.batches().count(place) == 0) {
    return absl::DataLossError(absl::StrCat(name, " is of no batch"));
  }
  Push& push = pushes_.emplace_back();
  push.session = session;
  push.sequence = header.sequence();
  push.stamp = NumberOf(header.snapshot());
  push.batch = place;
  for (size_t b = 0; b < job_.blocks().size(); ++b) {
    push.coefficients.push_back(job_.Coefficient(place, b));
  }
  return known->second;
}

absl::StatusOr<PushLedger::PushIndex> PushLedger::Find(
    const v1::Header& header) const {
  return Find({header.worker(), NumberOf(header.generation())},
              header.sequence());
}

uint64_t PushLedger::PushesOf(const SessionKey& session) const {
  const auto behind =
      by_sequence_.upper_bound({session, std::numeric_limits<uint64_t>::max()});
  if (behind == by_sequence_.begin()) return 0;
  const auto& [whose, sequence] = std::prev(behind)->first;
  return whose == session ? sequence : 0;
}

absl::StatusOr<PushLedger::PushIndex> PushLedger::Find(
    const SessionKey& session, uint64_t sequence) const {
  const auto known = by_sequence_.find({session, sequence});
  if (known != by_sequence_.end()) return known->second;
  return absl::DataLossError(absl::StrCat(
      "push ", sequence, " of ", SessionName(session), " was never sent"));
}

}  // namespace paramd
