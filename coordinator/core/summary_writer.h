#ifndef PARAMD_COORDINATOR_CORE_SUMMARY_WRITER_H_
#define PARAMD_COORDINATOR_CORE_SUMMARY_WRITER_H_

#include <cstdint>

#include "coordinator/core/summaries.h"
#include "coordinator/core/told_mark.h"
#include "coordinator/core/turn.h"

namespace paramd {

// Has summaries written for TensorBoard while the job runs.
//
// Invariant: training goes on whether or not they can be written.
//
// Not thread-safe: a part of the coordinator's core.
class SummaryWriter {
 public:
  explicit SummaryWriter(uint64_t every_steps) : summaries_(every_steps) {}

  Summaries& summaries() { return summaries_; }

  // Writes what is due. `told_step`: up to which workers have told their
  // losses; `ending`: nothing may come after it.
  void Advance(uint64_t told_step, bool ending, Turn* turn);

 private:
  void OnWritten(const IoResult& result, Turn* turn);

  Summaries summaries_;
  ToldMark mark_;        // When figures came to be due.
  bool failed_ = false;  // That was said.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SUMMARY_WRITER_H_
