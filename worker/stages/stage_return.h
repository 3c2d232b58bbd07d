#ifndef PARAMD_WORKER_STAGES_STAGE_RETURN_H_
#define PARAMD_WORKER_STAGES_STAGE_RETURN_H_

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
// The mini-batch failed with `why`, for the first time `waited` ago; the stage
// that failed was greeted, and `answers` came of it. UNAVAILABLE, naming who is
// missing, after `patience`.
ReturnVerdict JudgeReturn(const absl::Status& why, const absl::Status& answers,
                          absl::Duration waited, absl::Duration patience);

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_RETURN_H_
