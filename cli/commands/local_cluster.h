#ifndef PARAMD_CLI_COMMANDS_LOCAL_CLUSTER_H_
#define PARAMD_CLI_COMMANDS_LOCAL_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "cli/local/kill_plan.h"
#include "cli/local/loopback.h"
#include "cli/local/rejoin_watch.h"
#include "cli/local/succession.h"
#include "cli/local/supervisor.h"
#include "net/tls.h"
#include "process/job_flags.h"
#include "process/observe/status_poller.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/remaining_time.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// As they were typed.
struct LocalOptions {
  JobFlags job;
  int servers = 2;
  int workers = 2;
  int stages = 0;  // Of each worker, in processes of their own.
  int restarts = 3;
  bool resume = false;
  std::string kill;        // Whom, and when: see KillPlan.
  std::string tls_dir;     // Empty: no TLS.
  std::string trace_path;  // Empty: none.
};

// One cluster on this machine, from its first process to its last. Keeps
// references to the options and the job. Not thread-safe.
class LocalCluster {
 public:
  // `tls`: null, or an operator's.
  LocalCluster(const LocalOptions& options, const v1::JobConfig& job,
               KillPlan kills, std::string run_dir,
               std::shared_ptr<const Tls> tls);

  Console* console() { return &console_; }

  // Draws addresses until one's ports are free, a few times at most.
  Supervisor::Outcome Run();

 private:
  SupervisedTask MakeTask(const LoopbackCluster& cluster,
                          const std::string& type, int index) const;
  // Where a worker writes its own.
  std::string TraceOf(int worker) const;
  // Makes one of those that the workers wrote at their end; one that was killed
  // wrote none.
  void JoinTraceFiles();
  Supervisor::Outcome RunAt(const LoopbackCluster& cluster);
  Supervisor::Options MakeOptions(const std::vector<SupervisedTask>& tasks,
                                  const std::vector<std::string>& addresses);
  ClusterView View() const;
  static std::string Note(const StatusPoller::Answer& answer,
                          const TaskState& state);
  void SayWhoIsBack();
  void OnTick();
  void ShowTheEnd();

  const LocalOptions& options_;
  const v1::JobConfig& job_;
  KillPlan kills_;
  const std::string run_dir_;
  const std::shared_ptr<const Tls> tls_;  // May be null.
  Console console_;
  RandomStream random_;
  Succession succession_;
  RejoinWatch rejoins_;
  RemainingTime remaining_;
  int64_t ticks_ = 0;
  const StatusPoller* poller_ = nullptr;  // While RunAt is.
  Supervisor* supervisor_ = nullptr;      // While RunAt is.
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_LOCAL_CLUSTER_H_
