#ifndef PARAMD_WORKER_STAGES_STAGE_RETURN_H_
#define PARAMD_WORKER_STAGES_STAGE_RETURN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace paramd {

// What a worker does about a mini-batch that failed at a stage.

// OK if whoever is there then may compute it, from its beginning; else how the
// worker ends for `why`.
absl::Status CheckMayComeBack(const absl::Status& why);

struct ReturnVerdict {
  absl::Status end = {};  // How the worker ends, if it does.
  bool begins = false;    // After the pause, the mini-batch; else another look.
  absl::Duration pause = {};
};
struct StageLoss {
  absl::Status why;
  uint64_t times = 1;          // So often the mini-batch has failed,
  absl::Duration waited;       // this time so long ago,
  absl::Duration since_first;  // and the first time.
};
// A mini-batch that fails more often than this, whoever comes back, has its
// patience counted from the first time on.
inline constexpr uint64_t kMostLosses = 10;
// The stage that failed was greeted, and `answers` came of it. UNAVAILABLE,
// naming it, if it has not answered for `patience` since this loss, or if it
// answers and the mini-batch fails all the same: see kMostLosses.
ReturnVerdict JudgeReturn(const StageLoss& loss, const absl::Status& answers,
                          absl::Duration patience);

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_RETURN_H_
