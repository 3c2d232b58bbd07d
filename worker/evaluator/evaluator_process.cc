#include "worker/evaluator/evaluator_process.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/file.h"
#include "checkpoint/verify.h"
#include "config/setting_changes.h"
#include "input/open_pipeline.h"
#include "proto/metric_values.h"
#include "proto/refusal.h"
#include "worker/evaluation.h"
#include "worker/metric_messages.h"

namespace paramd {
namespace {

// "eval", "eval-2".
std::string NameOf(absl::string_view name, uint32_t index) {
  return index == 0 ? std::string(name) : absl::StrCat(name, "-", index);
}

std::string SummaryDirectory(const EvaluatorProcess::Options& options) {
  const std::string& said = options.job.summary().directory();
  return absl::StrCat(
      said.empty() ? absl::StrCat(options.job.run_dir(), "/summaries") : said,
      "/", NameOf("eval", options.index));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EvaluatorProcess>> EvaluatorProcess::Create(
    const Options& options, const ModelFactory& models) {
  const std::string& run_dir = options.job.run_dir();
  if (run_dir.empty()) {
    return absl::InvalidArgumentError(
        "run_dir is missing: an evaluator needs --run_dir, where the "
        "checkpoints are and where it writes evaluation.jsonl");
  }
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(options.job));
  ASSIGN_OR_RETURN(auto test, OpenTestData(options.job.input(), *training));
  ASSIGN_OR_RETURN(auto model,
                   models(WithOneReplica(options.job), training->spec()));
  RETURN_IF_ERROR(model->CheckTestData(test->spec()));
  ASSIGN_OR_RETURN(
      auto log,
      EvaluationLog::Open(absl::StrCat(
          run_dir, "/", NameOf("evaluation", options.index), ".jsonl")));
  return std::unique_ptr<EvaluatorProcess>(new EvaluatorProcess(
      options, std::move(test), std::move(model), std::move(log)));
}

EvaluatorProcess::EvaluatorProcess(const Options& options,
                                   std::unique_ptr<Pipeline> test,
                                   std::unique_ptr<TrainedModel> model,
                                   EvaluationLog log)
    : options_(options),
      root_(options.job.checkpoint().directory()),
      test_(std::move(test)),
      model_(std::move(model)),
      log_(std::move(log)),
      failure_(options.job.run_dir()),
      core_(absl::Milliseconds(options.job.start_timeout_ms())),
      evaluating_("evaluate") {
  if (options.job.summary().every_steps() > 0) {
    summaries_.emplace(SummaryDirectory(options));
  }
}

void EvaluatorProcess::AddTo(Runtime* runtime) {
  // A name in this process alone: it calls nobody.
  runtime->AddCore(PeerId::Worker(options_.index), &core_);
  runtime->HandleIo(
      v1::EvaluateNewest::descriptor(),
      [this](Outbox::IoItem /*item*/, Runtime::IoDone done) {
        evaluating_.Post([this, done = std::move(done)] {
          auto looked = EvaluateNewest();
          IoResult result;
          result.status = looked.status();
          if (looked.ok()) {
            result.head = std::make_unique<v1::EvaluateNewestResult>(*looked);
          }
          done(std::move(result));
        });
      });
}

absl::StatusOr<v1::EvaluateNewestResult> EvaluatorProcess::EvaluateNewest() {
  auto looked = LookAtNewest();
  RETURN_IF_ERROR(failure_.Read());
  return looked;
}

absl::StatusOr<v1::EvaluateNewestResult> EvaluatorProcess::LookAtNewest() {
  const auto names = ListCheckpointNames(root_);
  if (!names.ok() || names->empty()) return NothingThere();
  const v1::SnapshotNumber newest = names->front().snapshot;
  if (newest == settled_) return settled_result_;
  Looked of_newest;
  for (const CheckpointName& name : *names) {
    ASSIGN_OR_RETURN(const Looked looked, Look(name));
    if (looked.outcome == Outcome::kGone) return v1::EvaluateNewestResult();
    // Of the newest, also where its numbers are damaged.
    if (name.snapshot == newest) of_newest = looked;
    if (looked.outcome == Outcome::kEvaluated) break;
  }
  // No later one takes its place.
  if (of_newest.final && of_newest.outcome == Outcome::kDamaged) {
    return absl::DataLossError(absl::StrCat(
        "the job's last checkpoint '", root_, "/", names->front().name,
        "' is damaged: ", of_newest.why.message()));
  }
  settled_ = newest;
  settled_result_.set_final(of_newest.final);
  return settled_result_;
}

absl::Status EvaluatorProcess::NothingThere() const {
  const std::string& run_dir = options_.job.run_dir();
  if (IsDirectory(run_dir) || IsDirectory(root_)) {
    return absl::UnavailableError(
        absl::StrCat("the first checkpoint below '", root_, "'"));
  }
  return absl::NotFoundError(absl::StrCat(
      "the chief to make the run's directory '", run_dir,
      "', which is not there: is it the chief's run_dir, on storage that this "
      "machine sees?"));
}

absl::Status EvaluatorProcess::CheckJob(const std::string& path,
                                        const v1::Manifest& manifest) const {
  const auto& settings = manifest.job().settings();
  std::string difference;
  if (settings.empty() && manifest.job_digest() != options_.job_digest) {
    difference = "an earlier version did not write down in what";
  } else if (!settings.empty()) {
    difference = ChangesText(
        ChangesSince({settings.begin(), settings.end()}, options_.job).may_not);
  }
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint '", path, "' is of job '", manifest.job_name(),
                   "' with other settings: ", difference,
                   ": give the job file it was made with"));
}

absl::StatusOr<EvaluatorProcess::Looked> EvaluatorProcess::Look(
    const CheckpointName& name) {
  const std::string path = absl::StrCat(root_, "/", name.name);
  const auto manifest = ReadManifest(path);
  if (!manifest.ok()) return PassOver(path, manifest.status());
  Looked looked;
  looked.final = manifest->final();
  RETURN_IF_ERROR(CheckJob(path, *manifest));
  RETURN_IF_ERROR(CheckMeaning(*test_, path, manifest->job().data()));
  // An older one, beside damaged ones, may lie before what was evaluated.
  if (log_.Has(name.snapshot) ||
      (name.snapshot < settled_ &&
       manifest->global_step() <= log_.last_step())) {
    return looked;
  }
  const Time begin = MonotonicNow();
  if (!keys_.has_value()) {
    ASSIGN_OR_RETURN(keys_, KeysReadBy(*test_, *model_));
  }
  const auto weights =
      ReadWeights(path, model_->variables(), options_.job.seed(), *keys_);
  if (!weights.ok()) {
    Looked passed = PassOver(path, weights.status());
    passed.final = looked.final;
    return passed;
  }
  RETURN_IF_ERROR(Evaluate(path, *manifest, *weights, begin));
  return looked;
}

absl::Status EvaluatorProcess::Evaluate(
    const std::string& path, const v1::Manifest& manifest,
    const std::vector<std::vector<float>>& weights, Time begin) {
  const std::vector<absl::Span<const float>> spans(weights.begin(),
                                                   weights.end());
  const std::vector<absl::Span<const uint64_t>> rows(keys_->begin(),
                                                     keys_->end());
  const auto evaluated =
      EvaluateOn(*test_, spans, model_.get(), {.rows = rows});
  // A device that is lost: UNAVAILABLE would say that nothing is there yet.
  if (absl::IsUnavailable(evaluated.status())) {
    return absl::AbortedError(evaluated.status().message());
  }
  RETURN_IF_ERROR(evaluated.status());
  const Metrics& result = *evaluated;
  EvaluationLog::Line line;
  line.number = manifest.snapshot();
  line.step = manifest.global_step();
  SetMetrics(result, &line.evaluation);
  line.seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
  std::vector<LogField> said;
  for (const auto& [name, value] : MetricValues(line.evaluation)) {
    said.emplace_back(name, value);
  }
  said.emplace_back("loss", line.evaluation.loss());
  LogSentence(
      LogLevel::kInfo,
      absl::StrCat("evaluated: ", EvaluationText(line.evaluation)), said,
      {{"checkpoint", path}, {"step", line.step}, {"seconds", line.seconds}});
  return Write(line);
}

absl::Status EvaluatorProcess::Write(const EvaluationLog::Line& line) {
  v1::WriteSummary summary;
  summary.set_step(line.step);
  // The job went back: what was written for later steps is void.
  summary.set_restarted(line.step <= log_.last_step());
  // The checkpoints may lie elsewhere.
  RETURN_IF_ERROR(MakeDirectories(options_.job.run_dir()));
  RETURN_IF_ERROR(log_.Append(line));
  if (!summaries_.has_value()) return absl::OkStatus();
  auto& scalars = *summary.mutable_scalars();
  for (const auto& [name, value] : MetricValues(line.evaluation)) {
    scalars["evaluation/" + name] = value;
  }
  scalars["evaluation/loss"] = line.evaluation.loss();
  for (const auto& [name, value] : SliceValues(line.evaluation)) {
    scalars["evaluation/" + name] = value;
  }
  const absl::Status written = summaries_->Write(summary, absl::Now());
  if (!written.ok() && !summary_failed_) {
    summary_failed_ = true;
    Log(LogLevel::kWarning, "no summaries for TensorBoard",
        {{"why", written.message()}});
  }
  return absl::OkStatus();
}

EvaluatorProcess::Looked EvaluatorProcess::PassOver(const std::string& path,
                                                    const absl::Status& why) {
  if (!IsDirectory(path)) {
    Log(LogLevel::kInfo, "a checkpoint was deleted before it was evaluated",
        {{"path", path}});
    return {.outcome = Outcome::kGone};
  }
  if (passed_over_.insert(path).second) {
    Log(LogLevel::kWarning,
        "a checkpoint is passed over, the one before it is evaluated",
        {{"path", path}, {"why", why.message()}});
  }
  return {.outcome = Outcome::kDamaged, .why = why};
}

}  // namespace paramd
