#ifndef PARAMD_CLI_LOCAL_SUPERVISOR_H_
#define PARAMD_CLI_LOCAL_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "cli/local/child_process.h"
#include "cli/local/restart_policy.h"
#include "process/signal_pipe.h"

namespace paramd {

// What a supervisor keeps running: one task of a cluster.
struct SupervisedTask {
  std::string name;  // "ps-0", "worker-1": its log's name too.
  // When this one has finished, all others must finish by themselves.
  bool is_chief = false;
  ChildProcess::Options process;
};

// How a task is doing, for people.
struct TaskState {
  enum class Kind { kRunning, kWaitingToRestart, kFinished, kFailed };
  Kind kind = Kind::kRunning;
  int restarts = 0;
  int exit_code = 0;  // Of the newest end.
};

// Runs the processes of a cluster as its parent: starts them, reads what they
// print, restarts what may do better next time, and ends them all when one
// fails for good, when the chief has finished, or when told by a signal.
//
//   running ──chief exits 0──► finishing ──all have exited──► done
//      │ failed for good, signal    │ grace is over: named, SIGTERM
//      ▼                            ▼
//   stopping (SIGTERM) ──drain is over, second signal──► killed (SIGKILL)
//
// Invariant: when Run returns no process that it started is left. They also die
// with the thread that called Run, whatever kills it.
//
// Not thread-safe. REQUIRES: CatchSupervisorSignals was called.
class Supervisor {
 public:
  struct Options {
    RestartPolicy::Options restarts;
    // From SIGTERM to SIGKILL. Without a chief nobody can save anything: it is
    // a second at most.
    absl::Duration drain_timeout = absl::Seconds(25);
    // From the chief's end to that of the last process.
    absl::Duration finish_grace = absl::Seconds(15);
    // Each task's output is appended to `<log_directory>/<task>.log`.
    std::string log_directory;
    // Asked before each start of a task, whose process before has ended:
    // arguments for this one process.
    std::function<std::vector<std::string>(const SupervisedTask&)>
        more_arguments;
    // One line of a task's output, without its line break.
    std::function<void(const std::string& task, const std::string& line)>
        on_line;
    // What the supervisor itself has to say.
    std::function<void(const std::string& sentence)> on_event;
    // About once every tick.
    std::function<void()> on_tick;
    absl::Duration tick = absl::Seconds(1);
    // Asked about a task that exited 2. True: the whole cluster stops with
    // `port_taken`, so that the caller can try other ports.
    std::function<bool(const SupervisedTask&)> is_port_taken;
  };
  struct Outcome {
    int exit_code = 0;
    // Why, if it is not 0: one sentence.
    std::string sentence = {};
    // The last lines of the task that stopped the cluster.
    std::vector<std::string> last_lines = {};
    bool port_taken = false;
    // By an operator: a job that has ended well and is not finished. Set by who
    // knows the job.
    bool was_stopped = false;
  };

  Supervisor(Options options, std::vector<SupervisedTask> tasks);
  ~Supervisor();

  // Blocks until every process has ended. 0: the chief's process exited 0 (what
  // did not end after it in time is named by on_event and killed); 1 or 2: that
  // of a task that failed for good (1 also when one that was killed or crashed
  // has used up its restarts, or nothing could be started); 138: one that ended
  // so has used them up; 130 after SIGINT, 143 after SIGTERM and SIGHUP.
  // A signal that repeats the first one (StopSignals) changes nothing; a later
  // one is named by on_event and kills what still runs.
  Outcome Run();

  // Ends the task's process as a crash would; it is restarted like one. The
  // process, or nullopt if none of that name runs now. Called by on_tick.
  absl::optional<pid_t> Kill(const std::string& task);

  // In the order of the tasks.
  std::vector<TaskState> States() const;

 private:
  static constexpr size_t kLastLines = 20;
  static constexpr size_t kLongestLine = 16 << 10;

  enum class Phase { kRunning, kFinishing, kStopping, kKilled };

  struct Slot {
    explicit Slot(const RestartPolicy::Options& options) : policy(options) {}
    SupervisedTask task;
    RestartPolicy policy;
    absl::optional<ChildProcess> process;
    TaskState state;
    Time start_at = Time::Never();  // Waiting to restart.
    std::string unfinished_line;
    std::deque<std::string> last_lines;
    std::FILE* log = nullptr;
  };

  void StartDue();
  void StartTask(Slot* slot);
  void ReadOutput(Slot* slot);
  // The line that it has begun.
  void EmitLine(Slot* slot);
  void Reap();
  void OnExit(Slot* slot, int exit_code);
  void OnFailure(Slot* slot, int exit_code);
  void BlameChief(const Slot& slot, int exit_code);
  void OnSignal(int signal);
  void StopFor(int signal);
  void HandleSignals();
  void CheckDeadline();
  void Stop(Outcome outcome);
  void SignalAll(int signal);
  void Wait();
  bool AnyRunning() const;
  void Say(const std::string& sentence) const;

  const Options options_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Phase phase_ = Phase::kRunning;
  Outcome outcome_;
  Time deadline_ = Time::Never();  // Of the present phase.
  std::string overdue_;  // Said after the names of those that pass it.
  StopSignals signals_;
  Time next_tick_;
};

// What of SIGINT, SIGTERM, SIGHUP and SIGCHLD arrives from now on waits for the
// supervisor. Called first of all.
void CatchSupervisorSignals();

}  // namespace paramd

#endif  // PARAMD_CLI_LOCAL_SUPERVISOR_H_
