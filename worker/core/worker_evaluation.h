#ifndef PARAMD_WORKER_CORE_WORKER_EVALUATION_H_
#define PARAMD_WORKER_CORE_WORKER_EVALUATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "client/core/session.h"
#include "client/core/sparse_rows.h"
#include "client/core/weights.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "proto/paramd/v1/test_part.pb.h"
#include "tensor/core.h"
#include "worker/core/worker_turn.h"

namespace paramd {

// The evaluations that the coordinator asks of a worker, of the test set or of
// a part of it, on weights of their own, beside its steps. Of sparse variables
// it pulls what these examples read: which rows that is it asks before the
// first evaluation of them.
//
// Invariant: one is under way at a time; while it is computed its weights do
// not change. It outlives a session like a Computation.
//
// Not thread-safe: part of a worker's core.
class WorkerEvaluation {
 public:
  // `epochs`: of the job; the final evaluation counts as that of the last,
  // unless the coordinator says of which.
  explicit WorkerEvaluation(uint32_t epochs) : epochs_(epochs) {}

  // `session`, which is configured, outlives this or EndSession.
  void BeginSession(Session* session);
  // What was reported is of the session that has ended; what is computed is
  // waited for, and dropped: its weights may be lost.
  void EndSession();
  // It is computed: the weights are read.
  bool busy() const { return io_ != 0; }

  // Starts what `asked` says and was not done.
  void Advance(const v1::HeartbeatReply& asked, WorkerTurn* turn);
  // Its pull has ended, or the lookup of rows after it; `given_up`: without
  // weights.
  void Pulled(bool given_up, WorkerTurn* turn);
  void LookedUp(bool given_up, WorkerTurn* turn);
  bool IsResult(const IoResult& result) const {
    return io_ != 0 && result.io == io_;
  }
  // Of the computation, or of the question for rows. Ends the process if it
  // failed.
  void Take(const IoResult& result, WorkerTurn* turn);

  // The newest of the test set; without an epoch: none.
  const v1::Evaluation& newest() const { return newest_; }

  // What was counted on the part that the request names, or the beginning of
  // it, which leaves the message below 1 MiB; nothing if that is not known yet.
  void FillPart(v1::HeartbeatRequest* request) const;
  // That was not in the newest request, which names the part.
  bool HasPartToTell(const v1::HeartbeatRequest& last) const {
    return IsCounted(last.test_part()) && !last.has_tested();
  }

 private:
  bool IsCounted(const v1::TestPart& part) const;
  void TakeResult(const v1::EvaluateWeightsResult& result, WorkerTurn* turn);
  void StartLookup(WorkerTurn* turn);
  void Compute(BufferChain weights, WorkerTurn* turn);

  const uint32_t epochs_;
  Session* session_ = nullptr;
  Weights weights_;
  // By sparse variable, of the process; empty: not known yet.
  std::vector<Buffer> row_numbers_;
  v1::TestPart part_of_rows_;         // That reads them; none: the test set.
  std::unique_ptr<SparseRows> rows_;  // Of the evaluation; null: it needs none.
  v1::Evaluation newest_;
  v1::TestPart part_;  // That is under way; none: the test set.
  // What was counted on the batches of a part, the first of them first.
  v1::TestPart counted_part_;
  std::vector<v1::BatchMetrics> counted_;
  bool under_way_ = false;
  IoId io_ = 0;                    // 0: it is not computed.
  bool of_ended_session_ = false;  // What is computed.
  bool final_ = false;
  uint32_t epoch_ = 0;
  uint64_t pulls_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_WORKER_EVALUATION_H_
