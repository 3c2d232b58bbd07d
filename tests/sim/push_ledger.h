#ifndef PARAMD_TESTS_SIM_PUSH_LEDGER_H_
#define PARAMD_TESTS_SIM_PUSH_LEDGER_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tensor/message.h"
#include "tests/sim/integer_job.h"

namespace paramd {

// Which batch every push was made of, overheard on the wire, so that what a
// checkpoint says it contains can be compared with what it contains.
//
// Not thread-safe.
class PushLedger {
 public:
  explicit PushLedger(const IntegerJob& job) : job_(job) {}

  // A message as it is sent; what is not a push changes nothing.
  // kDataLoss if a push says it is of another batch than when it was first
  // sent, or of no batch of the job, or if its number leaves a gap.
  absl::Status See(PeerId from, const google::protobuf::Message& head);

  // All batches of the pushes up to the sequence of each session of the
  // manifest's own term, and of the sessions that its worker had before and
  // left in good order; kDataLoss if one of them was never seen. Sessions of
  // earlier terms are in what that term's coordinator restored.
  absl::StatusOr<std::multiset<BatchPlace>> BatchesUpTo(
      const v1::Manifest& manifest) const;

  // The number of different pushes seen.
  size_t pushes() const { return batches_.size(); }

 private:
  // Worker, generation (term, counter), sequence.
  using Push = std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>;

  void AddEarlierSessions(const v1::SavedSession& session,
                          std::multiset<BatchPlace>* batches) const;

  const IntegerJob& job_;
  std::map<Push, BatchPlace> batches_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_PUSH_LEDGER_H_
