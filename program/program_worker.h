#ifndef PARAMD_PROGRAM_PROGRAM_WORKER_H_
#define PARAMD_PROGRAM_PROGRAM_WORKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "compute/program/program_exchange.h"
#include "compute/program/program_model.h"
#include "net/runtime.h"
#include "program/lent_gradients.h"
#include "program/saved_run.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// A worker of a job inside a program that has the model and the data:
//
//   ProgramWorker::Options options;
//   options.job_text = R"({"name": "own", "model": {"custom": true}, ...})";
//   options.model.variables = ...;
//   options.training_examples = 60000;
//   ASSIGN_OR_RETURN(auto worker, ProgramWorker::Start(std::move(options)));
//   for (;;) {
//     ASSIGN_OR_RETURN(const ProgramWork* work,
//     worker->Next(absl::Minutes(1))); if (work == nullptr) break; // The job
//     has finished. Metrics metrics = ...;    // Of work->indices on
//     work->weights; gradients RETURN_IF_ERROR(worker->Finish(metrics));    //
//     into work->gradients.
//   }
//
// Which task of which cluster it is TF_CONFIG says, as to `paramd run`; without
// it servers, chief and worker are all in this process. Several in one process
// share a log. Of a job with `replicas` the program computes the batch of each
// in turn, in the order of the examples, on the same weights.
//
// Invariant: a number that is not finite never leaves, and the gradients of one
// batch come from one computation: once some have left, the rest follows by
// Finish, or the worker leaves the job and the batch is handed out again.
//
// Thread safety: one thread at a time. The destructor closes.
class ProgramWorker {
 public:
  struct Options {
    // The job file's path, or its content; with both, the path is what errors
    // call it.
    std::string job_path;
    absl::optional<std::string> job_text;
    // Settings that beat it, (key path, value).
    std::vector<std::pair<std::string, std::string>> settings;
    ProgramModel::Options model;
    // 0: as many as the run had, if all that the job wants is trained already
    // (FindSaved): it only tells the others so. What else the input was comes
    // from the run too.
    uint64_t training_examples = 0;
    uint64_t test_examples = 0;  // Needed if model.evaluates.
    // As the flags of `paramd run`.
    bool insecure = false;
    std::string tls_dir;
  };

  // What the newest checkpoint has that a run goes on from.
  struct Saved {
    SavedRun run;
    std::vector<std::vector<float>> weights;  // By variable.
  };
  // Of the run that a worker with these options would go on with, before it is
  // started: a program's model may hold these weights then, and its loop begin
  // at that epoch. NOT_FOUND if this process finds none; what is wrong with the
  // options, or with what the checkpoint has of these variables.
  static absl::StatusOr<Saved> FindSaved(const Options& options);

  // Returns when the process's address is bound and its work begins: the first
  // Next waits for the cluster. INVALID_ARGUMENT with every mistake, one a
  // line; FAILED_PRECONDITION if the cluster's servers have ended with a job
  // that finished in this process; what else may keep a process from starting.
  static absl::StatusOr<std::unique_ptr<ProgramWorker>> Start(Options options);
  ~ProgramWorker();

  // What the program is to compute next, which it holds until Finish or Close.
  // Null: the job has finished. DEADLINE_EXCEEDED if there is nothing yet;
  // else why the process ended, as its log says. FAILED_PRECONDITION if work is
  // held.
  absl::StatusOr<const ProgramWork*> Next(absl::Duration timeout);
  // What the newest checkpoint of this worker's run has. When Next has said
  // that the job has finished, these are the weights that it ended with, which
  // no work had. NOT_FOUND if this process finds none: one that is not the
  // chief may have none of the run's directories.
  absl::StatusOr<Saved> ReadSaved() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Where this process keeps the run; empty: it keeps none.
  std::string run_dir() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Hands over what was computed. FAILED_PRECONDITION if no work is held. If
  // the loss or a gradient is not a finite number, naming the variable:
  // INVALID_ARGUMENT while nothing of the batch has left, and the work is held
  // as before; ABORTED if some has. Then nothing mends this batch: every call
  // for it says the same, and Close is left.
  absl::Status Finish(const Metrics& metrics);
  // The examples of a batch that this worker will likely be given soon, for a
  // program that reads ahead; each is said once. Empty: none is known now.
  std::vector<int64_t> TakeUpcoming() { return exchange_.TakeAnnounced(); }
  // Of work that asks for rows: these rows of the variable are read, in
  // whatever order, as often as it likes. INVALID_ARGUMENT, with none taken, if
  // it is not sparse or has not got them. FAILED_PRECONDITION if no such work
  // is held.
  absl::Status FoundRows(size_t variable, absl::Span<const int64_t> rows);
  // Which rows of a sparse variable the weights of the work that is held are,
  // ascending; empty: of another variable.
  absl::Span<const uint64_t> RowsOf(size_t variable) const;
  // The gradient of this variable is final and may leave, which the first ones
  // do when together they have 1 MiB; the last ones leave with Finish. Nothing
  // if the work is no step. If it is not finite, as Finish; ABORTED also if it
  // was final before and some have left. REQUIRES: there is such a variable.
  absl::Status GradientReady(size_t variable);
  // The gradient of this variable lies there and not in work->gradients, and
  // stays as it is until `number`, which may be that of several, has come back.
  // Where gradients are added up before they leave it is copied. In place of
  // one that was lent before, and not final any more; ABORTED, as Finish, if
  // that has left. Null: it lies in work->gradients from now on. Of a number
  // with nothing lent, and where the work is no step, that comes back at once.
  // INVALID_ARGUMENT if another number was lent after this one, which has not
  // come back; FAILED_PRECONDITION if no work is held. REQUIRES: there is such
  // a variable; as many values as its gradient has.
  absl::Status LendGradient(size_t variable, const float* values,
                            uint64_t number);
  // Of a step: there is no gradient of this variable, which stays as it is, as
  // do its momenta, its moments and the steps that its optimizer counts; one of
  // zeros would move them. Until a gradient of it is lent. INVALID_ARGUMENT if
  // it is untrained, or sparse; ABORTED, as Finish, if gradients have left;
  // UNIMPLEMENTED where gradients are added up or clipped before they leave;
  // FAILED_PRECONDITION if no step is held. REQUIRES: there is such a variable.
  absl::Status LeaveUntouched(size_t variable);
  // Numbers of loans that nobody reads any more, each once. Close returns when
  // all have come back.
  std::vector<uint64_t> TakeReturned() { return lent_.TakeReturned(); }
  // What was computed for the work that is held is void, and its gradients may
  // be written anew. ABORTED, as Finish, if some of them have left.
  // FAILED_PRECONDITION if none is held.
  absl::Status Recompute();

  // Changes a setting of the job while it runs: "learning_rate_scale", which
  // every learning rate is multiplied by from then on, to a number such as
  // "0.1". Returns when all servers have it; gradients that were finished
  // before may be applied with either. A run that goes on keeps it. Nothing
  // once the job is over. FAILED_PRECONDITION in a worker that is not the
  // chief; INVALID_ARGUMENT for another setting or value; UNAVAILABLE, saying
  // who is waited for, if a server does not have it within a minute.
  absl::Status Set(const std::string& key, const std::string& value)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What all workers were trained on, by epoch, once the job has finished; of a
  // run that had finished before, nothing.
  std::vector<v1::EpochTraining> training() const {
    return exchange_.training();
  }

  // Leaves: work that is held is dropped, and its examples are handed out
  // again; the chief writes what it has. OK if the job had finished, CANCELLED
  // if it goes on without this worker, else why the process had ended. Again:
  // the same.
  absl::Status Close();

 private:
  // The gradients of the work that is held.
  struct Outgoing {
    std::vector<bool> final;  // By variable; finite too.
    size_t final_count = 0;
    std::vector<size_t> waiting;  // Those of them that have not left.
    uint64_t waiting_bytes = 0;
    std::vector<Buffer> lent;  // By variable, until it has left.
    bool left = false;         // Some have.
    absl::Status lost;         // Why the work can't be finished.
  };

  explicit ProgramWorker(Options options) : options_(std::move(options)) {}

  // The process's thread: prepares, tells, runs, releases.
  void Run();
  absl::Status RunProcess();
  void Tell(const absl::Status& prepared, Runtime* runtime)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ClearOutgoing();
  // What is said of work that can't be taken for this reason.
  absl::Status Refuse(const std::string& why);
  absl::Status CheckGradient(const ProgramWork& work, size_t variable);
  // What the coordinator of this process answers; OK if the process has ended
  // with its job.
  absl::Status AskToSet(const v1::SetRequest& request, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // One that was final becomes so anew, if it has not left.
  absl::Status Reopen(size_t variable);
  // From now on the worker's, where it was lent.
  void HandOver(const ProgramWork& work, size_t variable);
  // Which of the sparse variables it is. REQUIRES: it is one.
  size_t SparsePlace(size_t variable) const;

  const Options options_;
  ProgramExchange exchange_;
  LentGradients lent_;
  Outgoing outgoing_;
  mutable Mutex mutex_;
  CondVar changed_;
  absl::optional<absl::Status> prepared_ ABSL_GUARDED_BY(mutex_);
  // While it may be drained.
  Runtime* runtime_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Once it is prepared:
  v1::JobConfig job_ ABSL_GUARDED_BY(mutex_);
  uint32_t index_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: the chief.
  absl::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  bool closed_ = false;
  std::thread process_;  // Last: it uses all of the above.
};

}  // namespace paramd

#endif  // PARAMD_PROGRAM_PROGRAM_WORKER_H_
