#ifndef PARAMD_WORKER_STRATEGY_SYNC_CURSOR_H_
#define PARAMD_WORKER_STRATEGY_SYNC_CURSOR_H_

#include <cstdint>

#include "proto/input_cursor.h"
#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// Which step of sync mode a worker contributes to next, and with which
// examples. It follows from the contributors and the steps that are decided;
// nobody has to hand out input.
//
// Not thread-safe: lives inside a worker's core.
class SyncCursor {
 public:
  struct Options {
    uint32_t worker = 0;
    uint64_t examples = 0;  // In the training set.
    uint32_t epochs = 1;
    uint64_t batch = 1;  // Examples of one contribution.
  };

  explicit SyncCursor(const Options& options) : options_(options) {}

  // Takes over who contributes and goes to their first step. False: nothing is
  // new. Contributors that are older than `generation` are others, even if one
  // of them is an earlier session of this worker.
  bool Configure(const v1::Contributors& contributors,
                 const v1::SessionId& generation);

  // This worker is one of the contributors.
  bool contributes() const { return contributes_; }
  // Nothing is left to contribute to. False before Configure.
  bool finished() const;
  // The next step that is not decided, as far as is known. 0: none is known.
  uint64_t step() const { return step_; }
  const v1::Contributors& contributors() const { return contributors_; }

  // What this worker computes for step(), perhaps no examples, and the number
  // of examples of the whole step. REQUIRES: contributes(), not finished().
  struct Share {
    InputCursor::Range range;
    uint64_t step_examples = 0;
  };
  Share share() const;
  // What it computes in the step after that one if the contributors stay; no
  // examples at the end of the input. REQUIRES: as share().
  InputCursor::Range next_range() const;

  // Steps up to this one are decided. Earlier ones than known: no change.
  void Decided(uint64_t step);

 private:
  uint64_t StepExamples() const {
    return options_.batch * contributors_.workers_size();
  }

  const Options options_;
  v1::Contributors contributors_;
  bool contributes_ = false;
  uint64_t rank_ = 0;  // Among the contributors.
  uint64_t step_ = 0;
  InputCursor input_;  // What step_ begins with.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_SYNC_CURSOR_H_
