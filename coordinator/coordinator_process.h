#ifndef PARAMD_COORDINATOR_COORDINATOR_PROCESS_H_
#define PARAMD_COORDINATOR_COORDINATOR_PROCESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/worker_thread.h"
#include "checkpoint/directory.h"
#include "checkpoint/fetched_files.h"
#include "checkpoint/restore_reader.h"
#include "coordinator/chief_lease.h"
#include "coordinator/committed_note.h"
#include "coordinator/configuration_log.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/election/chief_fence.h"
#include "coordinator/summary/summary_writer.h"
#include "net/runtime.h"

namespace paramd {

// The coordinator as the chief's process has it: its core, and the thread that
// reads the configuration log and reads and writes checkpoints and the run's
// result, the one that appends to the log, the one that writes summaries, and
// the one that reads what a server does not see.
//
// Layout of a run's directory:
//   configuration/<number>   the configuration log
//   configuration/chief      who is the chief, see chief_lease.h
//   checkpoints/             see checkpoint/directory.h
//   committed                where it has checkpoints, see committed_note.h
//   summaries/               event files, see coordinator/summary
//   result.json              v1::WriteResult, when the job has ended
//   failure.json             where it has failed, see failure_note.h
//
// With a backup, configuration/ and checkpoints/ lie there until the job has
// finished (finished_backup.h).
//
// Thread safety: Create and AddTo on one thread, before the runtime runs; then
// only the storage thread touches the directory, only the summarizing one the
// event files, and only the reading one the readers; and nothing is appended to
// the log before it was read.
// Outlives Run.
class CoordinatorProcess {
 public:
  struct Paths {
    std::string run_directory;
    std::string checkpoint_directory;  // Empty: checkpoints/ in the run's.
    std::string summary_directory;     // Empty: summaries/ in the run's.
    std::string state_directory;       // Of configuration/. Empty: the run's.
    bool moves_at_success = false;     // What it has then moves to the run's.
  };

  // An error, naming the directory, if one of them can't be made or written.
  // ALREADY_EXISTS if a living process is the chief of the run; `chief` says
  // who this one is, and its directory is that of `paths`.
  static absl::StatusOr<std::unique_ptr<CoordinatorProcess>> Create(
      const Coordinator::Options& options, const Paths& paths,
      ChiefLease::Options chief);

  // Of a chief that was elected: what keeps it from deciding anything once it
  // is not the chief any more. REQUIRES: called before AddTo.
  void FenceBy(ChiefFence fence) { fence_ = std::move(fence); }

  // Around Run of the runtime: the run keeps this chief, and is stopped if
  // another one takes over.
  ChiefLease* lease() { return lease_.get(); }

  // What is done on the storage thread before the log is read, whose error ends
  // the run, and after the run's result. Either may be null. REQUIRES: called
  // before AddTo.
  void Surround(std::function<absl::Status()> before_log,
                std::function<void()> has_result) {
    before_log_ = std::move(before_log);
    has_result_ = std::move(has_result);
  }

  // Where the configuration log of a run lies, by its StateDirectory.
  static std::string LogDirectory(const std::string& state_directory);

  // Where the chief's summaries lie if the job does not say.
  static std::string SummaryDirectory(const std::string& run_directory);

  // Adds the core and does its work.
  void AddTo(Runtime* runtime);

 private:
  CoordinatorProcess(const Coordinator::Options& options, const Paths& paths);

  void AddCheckpointsTo(Runtime* runtime);
  absl::StatusOr<v1::ReadLogResult> ReadLog();
  absl::StatusOr<v1::FindCheckpointResult> Find(const v1::FindCheckpoint& find);
  absl::StatusOr<v1::CommitCheckpointResult> Commit(
      const v1::CommitCheckpoint& commit);
  // Does work on checkpoints, and notes whether their directory is lost.
  template <typename Request, typename Work>
  void HandleCheckpoints(Runtime* runtime, Work work);
  IoResult Read(const v1::ReadForServer& request);
  absl::Status WriteResult(v1::WriteResult result) const;
  // Makes requests of type `Request` answered by `work` on `thread`, if the
  // fence lets it.
  template <typename Request, typename Work>
  void Handle(Runtime* runtime, WorkerThread* thread, Work work);
  template <typename Request, typename Work>
  void Handle(Runtime* runtime, Work work) {
    Handle<Request>(runtime, &storage_, std::move(work));
  }

  const Paths paths_;
  std::function<absl::Status()> before_log_;
  std::function<void()> has_result_;
  ChiefFence fence_;
  std::unique_ptr<ChiefLease> lease_;
  Coordinator core_;
  DirectoryLog log_;
  CheckpointDirectory checkpoints_;
  std::atomic<bool> directory_lost_{false};  // As checkpoints_ says.
  CommittedNote committed_;
  FetchedFiles fetched_;
  std::map<uint32_t, RestoreReader> readers_;  // By server that sees nothing.
  SummaryWriter summaries_;
  WorkerThread storage_;  // Last: end before what they use.
  // So an entry, for which others may wait, waits for no checkpoint.
  WorkerThread logging_;
  WorkerThread summarizing_;
  WorkerThread reading_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_COORDINATOR_PROCESS_H_
