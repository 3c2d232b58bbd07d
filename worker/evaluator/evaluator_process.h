#ifndef PARAMD_WORKER_EVALUATOR_EVALUATOR_PROCESS_H_
#define PARAMD_WORKER_EVALUATOR_EVALUATOR_PROCESS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "base/worker_thread.h"
#include "checkpoint/verify.h"
#include "coordinator/failure_note.h"
#include "coordinator/summary/summary_writer.h"
#include "input/pipeline.h"
#include "net/runtime.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "worker/core/evaluator.h"
#include "worker/evaluator/evaluation_log.h"
#include "worker/model_factory.h"

namespace paramd {

// An evaluator as a process has it: its core, and the thread that evaluates.
//
// In the run's directory it writes, N being the task's index and left out for
// 0:
//   evaluation-N.jsonl   see EvaluationLog
//   summaries/eval-N/    event files; elsewhere as summary.directory says
//
// Thread safety: Create and AddTo on one thread, before the runtime runs; then
// only its own thread touches anything but the core. Outlives Run.
class EvaluatorProcess {
 public:
  struct Options {
    uint32_t index = 0;
    v1::JobConfig job;  // Checked, with every default filled in.
    std::string job_digest;
  };

  // Opens the data, the model and what was evaluated before. Their errors;
  // INVALID_ARGUMENT without a run_dir.
  static absl::StatusOr<std::unique_ptr<EvaluatorProcess>> Create(
      const Options& options, const ModelFactory& models = BuiltInModels());

  // Adds the core and does its work.
  void AddTo(Runtime* runtime);

  // Evaluates the newest checkpoint, unless that is done; then how the job has
  // failed, if the chief has noted that meanwhile. One that is damaged is
  // said once, and the one before it is evaluated in its place; one that is
  // deleted meanwhile ends the look. DATA_LOSS naming the job's last one, if
  // that is damaged, once the one before it is evaluated. UNAVAILABLE if there
  // is none yet, NOT_FOUND if there is no run either; nothing is made there.
  // INVALID_ARGUMENT if it is another job's, or was trained on data whose
  // numbers mean another thing than those of the test set; ABORTED if the
  // model's device is lost; what the disk answered if the result can't be
  // written.
  absl::StatusOr<v1::EvaluateNewestResult> EvaluateNewest();

 private:
  EvaluatorProcess(const Options& options, std::unique_ptr<Pipeline> test,
                   std::unique_ptr<TrainedModel> model, EvaluationLog log);

  absl::StatusOr<v1::EvaluateNewestResult> LookAtNewest();
  absl::Status NothingThere() const;
  enum class Outcome { kEvaluated, kDamaged, kGone };
  struct Looked {
    Outcome outcome = Outcome::kEvaluated;
    bool final = false;                   // Its manifest says so.
    absl::Status why = absl::OkStatus();  // kDamaged: what is wrong.
  };
  // Evaluates one checkpoint, unless that is done.
  // INVALID_ARGUMENT naming the settings, if the checkpoint is of another job.
  absl::Status CheckJob(const std::string& path,
                        const v1::Manifest& manifest) const;
  absl::StatusOr<Looked> Look(const CheckpointName& name);
  // `begin`: when reading its weights began.
  absl::Status Evaluate(const std::string& path, const v1::Manifest& manifest,
                        const std::vector<std::vector<float>>& weights,
                        Time begin);
  absl::Status Write(const EvaluationLog::Line& line);
  // The checkpoint can't be evaluated: it is gone, or damaged.
  Looked PassOver(const std::string& path, const absl::Status& why);

  const Options options_;
  const std::string root_;  // Of the checkpoints.
  const std::unique_ptr<Pipeline> test_;
  const std::unique_ptr<TrainedModel> model_;
  // What the test set reads of keyed variables; unset: nobody looked.
  absl::optional<std::vector<std::vector<uint64_t>>> keys_;
  EvaluationLog log_;
  FailureNote failure_;
  absl::optional<SummaryWriter> summaries_;  // If the job wants any.
  bool summary_failed_ = false;
  std::set<std::string> passed_over_;  // That was said. Bound: the run's.
  // The newest one that is settled, and whether it is the last.
  v1::SnapshotNumber settled_;
  v1::EvaluateNewestResult settled_result_;
  Evaluator core_;
  WorkerThread evaluating_;  // Last: ends before what it uses.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATOR_EVALUATOR_PROCESS_H_
