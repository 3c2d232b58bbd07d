#ifndef PARAMD_PROCESS_PREPARED_PROCESS_H_
#define PARAMD_PROCESS_PREPARED_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "config/cluster_spec.h"
#include "coordinator/core/finished_job.h"
#include "coordinator/election/chief_election.h"
#include "coordinator/election/chief_watch.h"
#include "net/operator_calls.h"
#include "net/operator_desk.h"
#include "net/runtime.h"
#include "net/tls.h"
#include "process/audit_log.h"
#include "process/mirrors.h"
#include "process/multi_worker.h"
#include "process/observe/metrics_endpoint.h"
#include "process/observe/process_facts.h"
#include "process/process.h"
#include "process/profile/profiler.h"
#include "process/run_options.h"
#include "process/trace/tracer.h"

namespace paramd {

// What `paramd run` is made of, step by step; each step may find it impossible.
// A later member may use an earlier one.
struct PreparedProcess {
  LoadedJob job;
  ClusterSpec cluster;
  // Why this task has nothing to do, a sentence; empty: it has.
  std::string nothing_to_do;
  ProcessRole role;
  std::unique_ptr<Mirrors> mirrors;  // Null: this process has one copy.
  std::unique_ptr<MultiWorker> multi_worker;  // Null: it is not one of several.
  std::unique_ptr<ChiefElection> election;    // Of a chief that is elected.
  std::unique_ptr<ChiefWatch> chief_watch;    // Of others with such a chief.
  std::unique_ptr<Process> process;           // Null while it lingers.
  std::vector<FinishedJob> finished;          // Empty until it lingers.
  std::unique_ptr<ProcessFacts> facts;
  std::unique_ptr<AuditLog> audit;
  std::shared_ptr<OperatorCalls> operators;  // Tells the audit log.
  std::unique_ptr<Profiler> profiler;
  std::unique_ptr<Tracer> tracer;  // Closed while it lingers.
  std::shared_ptr<const Tls> tls;  // Null: there are no certificates.
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<OperatorDesk> desk;  // Null: the runtime itself is called.
  std::unique_ptr<MetricsEndpoint> metrics;  // May be null. Asks the runtime.
};

// Reads the configuration, opens what the process reads and writes, and binds
// its ports; logs each step. Nothing of it has begun to work. A worker that
// joins asks the chief for its place first. Where there is nothing for this
// task to do (`nothing_to_do`) it stops there.
//
// The error of the step that failed, naming the setting, file or address; a run
// directory that was made and is empty is removed; what else was prepared stays
// in `prepared`, the job as soon as it is read.
absl::Status Prepare(const RunOptions& options, const ModelFactory& models,
                     PreparedProcess* prepared);

// Makes of a process whose runtime has ended one that stands there idle, under
// the same address: whoever calls is told that the job has ended, as `finished`
// says. Errors as of Prepare.
absl::Status PrepareToLinger(const RunOptions& options,
                             const v1::Finished& finished,
                             PreparedProcess* prepared);

// Says what is wrong in the form of the log: as PrintError does, or as a line
// of JSON once the job said so. Nothing if `status` is OK.
void Complain(const PreparedProcess& prepared, const absl::Status& status);

}  // namespace paramd

#endif  // PARAMD_PROCESS_PREPARED_PROCESS_H_
