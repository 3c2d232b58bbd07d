#ifndef PARAMD_TESTS_SIM_MANIFEST_MODEL_H_
#define PARAMD_TESTS_SIM_MANIFEST_MODEL_H_

#include <cstdint>
#include <map>
#include <set>

#include "absl/status/status.h"

#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tests/sim/content_model.h"
#include "tests/sim/push_ledger.h"

namespace paramd {

// What a manifest must say beside its files: its sessions are the newest pushes
// in the files, or after them the push at which a session was cut, and its
// step is that of the checkpoint which its term began with, and of each session
// since the push at which it was cut, or, of one that had ended, the last one
// that the coordinator had heard of.
//
// What reached a coordinator it may have refused, and what it took it may not
// have answered: between the two the step may lie. A term that took servers
// over knows of sessions that have ended what the servers have: its step may
// lie between none and all of their pushes, and not below that of the last
// checkpoint.
//
// Not thread-safe. Ledger and content outlive it.
class ManifestModel {
 public:
  ManifestModel(const PushLedger& ledger, const ContentModel& content)
      : ledger_(ledger), content_(content) {}

  // A coordinator begins with this checkpoint; null: with nothing.
  void Begin(uint64_t term, const v1::Manifest* manifest);
  void TakeOver(uint64_t term) { base_.erase(term); }
  // What a session says that it holds acknowledged reaches a coordinator, and
  // is answered by it.
  void Heard(const v1::Header& header);
  void Noted(const v1::Header& header);
  // The same of a cut.
  void HeardCut(const v1::HeartbeatRequest& request);
  void NotedCut(const v1::HeartbeatRequest& request);
  // A coordinator seals a snapshot.
  void Sealing(const v1::SealRequest& request);

  // kDataLoss naming what is wrong.
  absl::Status CheckCheckpoint(const v1::Manifest& manifest);
  // How many checkpoints could have had but one step.
  uint64_t exact() const { return exact_; }

 private:
  using Counts = std::map<SessionKey, uint64_t>;
  using Cuts = std::map<Number, Counts>;  // By snapshot.
  struct Range {
    uint64_t least = 0;
    uint64_t most = 0;
  };

  static void Add(const v1::HeartbeatRequest& request, Cuts* cuts);
  // What a session that has ended adds to the step of a snapshot.
  Range OfEnded(const SessionKey& session, uint64_t heard,
                const Number& snapshot) const;
  // Where a session may be that has saved so many pushes.
  Range PositionOf(const Number& snapshot, const SessionKey& session,
                   uint64_t saved) const;
  absl::Status CheckSessions(const v1::Manifest& manifest) const;

  const PushLedger& ledger_;
  const ContentModel& content_;
  // By term; of one that took servers over, see that which filled them.
  std::map<uint64_t, uint64_t> base_;
  Counts heard_;
  Counts noted_;
  Cuts heard_cuts_;
  Cuts noted_cuts_;
  struct Sealed {
    Range step;
    Counts cuts;  // Of those that were live.
  };
  std::map<Number, Sealed> sealed_;  // By snapshot.
  uint64_t newest_line_ = 0;
  uint64_t newest_step_ = 0;
  uint64_t exact_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_MANIFEST_MODEL_H_
