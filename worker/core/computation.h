#ifndef PARAMD_WORKER_CORE_COMPUTATION_H_
#define PARAMD_WORKER_CORE_COMPUTATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/time.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"
#include "worker/core/worker_turn.h"

namespace paramd {

// The gradients that the process computes for its worker: one, or as many at
// the same time as a pipeline without a flush has batches. It outlives
// sessions: what was begun in one may end in the next, of no use any more.
//
// Invariant: until a computation has ended it holds the weights that it was
// handed, which therefore do not change. Gradients leave by layers only where
// one is computed at a time.
//
// Not thread-safe: part of a worker's core.
class Computation {
 public:
  // Something is computed, of use or not.
  bool busy() const { return !under_way_.empty(); }
  size_t under_way() const { return under_way_.size(); }
  // What is computed, for people, if that takes long; empty: nothing does.
  std::string overdue(Time now) const;
  // Of what was begun last; 0: nothing is computed.
  IoId io() const { return busy() ? under_way_.back().io : 0; }

  // Finds the rows that `compute` will read. REQUIRES: !busy().
  void Collect(const v1::ComputeGradient& compute, WorkerTurn* turn);
  // Computes on `weights`, one buffer a variable, which are the copy `copy`.
  // `by_layers`: gradients of the last layers are taken as they become ready.
  // REQUIRES: !busy(), or by layers neither of them.
  void Start(std::unique_ptr<v1::ComputeGradient> compute, BufferChain weights,
             size_t copy, bool by_layers, WorkerTurn* turn);
  // The copy that was handed in last. Where it lies in memory that a program
  // lends, that reads it until it is handed the other one.
  size_t copy() const { return copy_; }
  // What is computed is of no use any more; nothing if nothing is.
  void Abandon(WorkerTurn* turn);
  // Its result has come.
  bool IsResult(const IoResult& result) const;
  void End(IoId io);

  // Gradients of the last layers have come, or the news that there are none.
  bool IsPart(const IoResult& result) const {
    return take_io_ != 0 && result.io == take_io_;
  }
  // They are of what is computed now; else they are of no use. The next are
  // asked for with AskForMore.
  bool TakePart(WorkerTurn* turn);
  void AskForMore(WorkerTurn* turn);
  // Nobody takes them any more.
  void DropPart() { take_io_ = 0; }

 private:
  struct UnderWay {
    IoId io = 0;
    Time since;  // When it began, with these examples.
    v1::Portion examples;
  };

  void Begin(const v1::ComputeGradient& compute, Time now);

  std::deque<UnderWay> under_way_;  // The oldest first.
  size_t copy_ = 0;
  bool by_layers_ = false;
  IoId take_io_ = 0;     // Of TakeGradients,
  IoId taken_from_ = 0;  // and the computation whose they are.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_COMPUTATION_H_
