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
#include "tensor/core.h"
#include "worker/core/worker_turn.h"

namespace paramd {

// The evaluations that the coordinator asks of a worker, on weights of their
// own, beside its steps. Of sparse variables it pulls what the test set reads:
// which rows these are it asks once, before the first evaluation.
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

  // The newest; without an epoch: none.
  const v1::Evaluation& newest() const { return newest_; }

 private:
  void StartLookup(WorkerTurn* turn);
  void Compute(BufferChain weights, WorkerTurn* turn);

  const uint32_t epochs_;
  Session* session_ = nullptr;
  Weights weights_;
  // By sparse variable, of the process; empty: not known yet.
  std::vector<Buffer> row_numbers_;
  std::unique_ptr<SparseRows> rows_;  // Of the evaluation; null: it needs none.
  v1::Evaluation newest_;
  bool under_way_ = false;
  IoId io_ = 0;                    // 0: it is not computed.
  bool of_ended_session_ = false;  // What is computed.
  bool final_ = false;
  uint32_t epoch_ = 0;
  uint64_t pulls_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_WORKER_EVALUATION_H_
