#ifndef PARAMD_COORDINATOR_CORE_JOB_VIEW_H_
#define PARAMD_COORDINATOR_CORE_JOB_VIEW_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "coordinator/core/coordinator_options.h"
#include "coordinator/core/members.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

//   reading log ─► taking term ─► recalling ─► finding checkpoint ─► logging
//   layout ─► filling ─► adopting ─► running ─► evaluating ─► saving ─► writing
//   result ─► logging end ─► telling end ─► done
enum class JobPhase {
  kReadingLog,
  kTakingTerm,
  kRecalling,
  kFindingCheckpoint,
  kLoggingLayout,
  kFilling,
  kAdopting,
  kRunning,
  kEvaluating,
  kSaving,
  kWritingResult,
  kLoggingEnd,
  kTellingEnd,
  kDone,
};

// How far the job is, by its input and what was made of it.
class JobProgress {
 public:
  using Cuts = std::map<uint32_t, v1::WorkerCut>;  // By worker.

  virtual ~JobProgress() = default;

  // In sync mode steps; else pushes acknowledged in all sessions that ever
  // were.
  virtual uint64_t global_step() const = 0;
  // The same if the present sessions had come as far as these cuts.
  virtual uint64_t StepAt(const Cuts& cuts) const = 0;
  // What is left of the input then.
  virtual v1::SavedInput InputLeft(const Cuts& cuts) const = 0;
  virtual bool InputFinished() const = 0;
  virtual uint32_t EpochsFinished() const = 0;
  // Sync mode stands still: every server has what was decided, and none is to
  // go back.
  virtual bool IsBetweenSteps() const = 0;
  // Whom the next step of sync mode waits for; empty: nobody.
  virtual std::string StepWaitsFor() const = 0;
  // Of a worker between two pushes, as far as is known.
  virtual absl::Duration LongestStep() const = 0;
};

// What every part of the coordinator may read, whichever keeps it. What it
// refers to outlives it.
struct JobView {
  const CoordinatorOptions& options;
  const JobPhase& phase;
  const v1::Configuration& configuration;
  const std::vector<ServerRecord>& servers;
  const std::map<uint32_t, WorkerRecord>& workers;
  const JobProgress& progress;
  // Whom everything waits for, and why; empty: nobody.
  const std::function<std::string()> waiting_for;

  bool IsSync() const {
    return configuration.consistency().mode() == v1::Consistency::SYNC;
  }
  absl::Duration lease() const {
    return absl::Milliseconds(options.job.lease_ms());
  }
  absl::Duration heartbeat() const {
    return absl::Milliseconds(options.job.heartbeat_ms());
  }

  // One of those that the cluster names, who are waited for; the others come
  // and go at will.
  bool IsListed(uint32_t worker) const { return worker < options.workers; }
  // Its session is neither silent for longer than the lease nor being fenced.
  bool IsLive(const WorkerRecord& worker, Time now) const {
    return !worker.fencing && now - worker.heard <= lease();
  }
  bool EveryServerHas(const v1::ConfigurationVersion& version) const;
  // The newest that every server has; nothing: one of them is not filled.
  absl::optional<v1::ConfigurationVersion> VersionOfAll() const;
  bool EveryServerIsThere() const;
  std::vector<v1::ServerLife> ServerGenerations() const;
  // With the newest session of the worker, if it has one, and the server's
  // life.
  std::string NameOfWorker(uint32_t worker) const;
  std::string NameOfServer(uint32_t server) const;
};

// Whether it is the turn of this server to be told what is left of the input:
// in each heartbeat some servers are. A coordinator that takes over counts as
// left what all servers say is left. As that only shrinks, it is what the
// server that was told last says.
bool IsToldInput(uint32_t server, Time now, const JobView& job);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_JOB_VIEW_H_
