#ifndef PARAMD_COORDINATOR_CORE_GROWING_INPUT_H_
#define PARAMD_COORDINATOR_CORE_GROWING_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "coordinator/core/coordinator_options.h"
#include "coordinator/core/portions.h"
#include "coordinator/core/turn.h"

namespace paramd {

// Has new files of a training set that grows looked for, and makes epochs of
// them:
//
//   waiting ─► scanning ─► logging ─► waiting … ─► the input is complete
//      ▲          │ nothing new
//      └──────────┘
//
// Invariant: the log has what an epoch consists of before anybody is given some
// of it. A file is in one epoch only.
//
// Not thread-safe: a part of the coordinator's core.
class GrowingInput {
 public:
  // `portions`, which outlive it, are told of each epoch.
  GrowingInput(const CoordinatorOptions& options, Portions* portions);

  // The log has this.
  void Read(const v1::EpochFiles& logged);
  // Looks for files while the job runs and no epoch that is known is untouched:
  // no more are found than somebody will soon be given. A file that can't be
  // trained on ends the process.
  void Advance(Turn* turn);

  // The job has nothing to do before new files come.
  bool waits() const;

  // "new files in /data/clicks".
  std::string waiting_for() const;

 private:
  enum class Stage { kWaiting, kScanning, kLogging };

  void Scan(Turn* turn);
  void OnScanned(const IoResult& result, Turn* turn);
  // Whether no new file has been found for as long as the job waits for one.
  bool HasBeenIdle();
  void Log(v1::EpochFiles found, Turn* turn);
  void OnLogged(const v1::EpochFiles& found, const IoResult& result,
                Turn* turn);

  Portions& portions_;
  const v1::InputConfig::Follow config_;
  const std::string directory_;
  Stage stage_ = Stage::kWaiting;
  uint32_t next_epoch_ = 1;
  std::vector<std::string> known_;  // Names. Bound: the log's.
  Time next_scan_;
  Time scan_began_;
  // Of the first one of those that have found nothing since something was.
  absl::optional<Time> idle_since_;
  bool failing_ = false;  // The last one could not be made.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_GROWING_INPUT_H_
