#include "coordinator/core/training_loss.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr uint64_t kSample = 1000;
// Means of so few examples differ by less than this where nothing is learnt.
constexpr double kClearlyAbove = 1.1;
// Standard deviations that luck explains.
constexpr double kLuck = 3;
// Of so few wrong guesses luck explains too much: even all may be right.
constexpr double kFewestWrong = 30;

// Whether somebody who guesses would have as many right. False where there are
// too few labels to tell.
bool IsChance(const v1::Evaluation& evaluation) {
  if (evaluation.classes() < 2 || evaluation.labels() == 0) return false;
  const double p = 1.0 / evaluation.classes();
  const auto n = static_cast<double>(evaluation.labels());
  if (n * (1 - p) < kFewestWrong) return false;
  return static_cast<double>(evaluation.correct()) <=
         n * p + kLuck * std::sqrt(n * p * (1 - p));
}

}  // namespace

void TrainingLoss::Begin(uint64_t step) {
  from_the_start_ = step == 0;
  unreported_ = sample_ = Sum();
  first_.reset();
  newest_.reset();
}

void TrainingLoss::Told(uint32_t worker, const v1::SessionId& generation,
                        bool taken_over, const v1::WorkerStats& stats) {
  const Sum now = {stats.examples(), stats.loss_sum(), stats.metrics()};
  Session& session = sessions_[worker];
  if (session.generation != generation) {
    session.generation = generation;
    session.told = taken_over ? now : Sum();
  }
  if (now.examples <= session.told.examples) return;
  const uint64_t examples = now.examples - session.told.examples;
  const double loss = now.loss - session.told.loss;
  for (Sum* const sum : {&unreported_, &sample_}) {
    sum->examples += examples;
    sum->loss += loss;
  }
  AddMetrics(now.metrics, &unreported_.metrics);
  SubtractMetrics(session.told.metrics, &unreported_.metrics);
  session.told = now;
  if (sample_.examples < kSample) return;
  newest_ = sample_.mean();
  if (!first_.has_value()) first_ = newest_;
  sample_ = Sum();
}

std::map<std::string, double> TrainingLoss::TakeMeans() {
  std::map<std::string, double> means = {{"loss", unreported_.mean()}};
  for (const v1::MetricSum& sum : unreported_.metrics) {
    if (sum.count() > 0) means[sum.name()] = MetricValue(sum);
  }
  unreported_ = Sum();
  return means;
}

absl::optional<double> TrainingLoss::first() const {
  return from_the_start_ ? first_ : absl::nullopt;
}

absl::optional<double> TrainingLoss::newest() const {
  return from_the_start_ ? newest_ : absl::nullopt;
}

std::vector<std::string> TrainingWarnings(const v1::Evaluation& evaluation,
                                          const TrainingLoss& loss) {
  constexpr char kAdvice[] =
      "lower optimizer.learning_rate or look at the input";
  std::vector<std::string> warnings;
  if (evaluation.examples() > 0 && !std::isfinite(evaluation.loss())) {
    warnings.push_back(absl::StrCat("the loss on the test set is ",
                                    evaluation.loss(), ": ", kAdvice));
  }
  if (IsChance(evaluation)) {
    warnings.push_back(absl::StrFormat(
        "%d of %d %s of the test set are right, as many as guessing among %d "
        "classes gives: %s",
        evaluation.correct(), evaluation.labels(),
        evaluation.labels() == evaluation.examples() ? "examples" : "labels",
        evaluation.classes(), kAdvice));
  }
  if (loss.first().has_value() && loss.newest().has_value() &&
      !(*loss.newest() <= *loss.first() * kClearlyAbove)) {
    warnings.push_back(absl::StrFormat(
        "the training loss is %.4g at the end, above the %.4g that it began "
        "with: %s",
        *loss.newest(), *loss.first(), kAdvice));
  }
  return warnings;
}

std::vector<std::string> ScheduleWarnings(const v1::JobConfig& job,
                                          uint64_t steps) {
  using Pruning = v1::OptimizerConfig::Pruning;
  constexpr char kAdvice[] = "give more epochs, or an earlier step";
  std::vector<std::string> warnings;
  for (const Pruning& pruning : job.optimizer().pruning()) {
    // What is counted behind a step becomes zero with the next one.
    const bool is_counted = pruning.scope() == Pruning::GLOBAL ||
                            pruning.structure() == Pruning::CHANNELS;
    if (pruning.end_step() + (is_counted ? 1 : 0) <= steps) continue;
    warnings.push_back(absl::StrCat(
        "optimizer.pruning of '", pruning.variables(), "' ends with end_step ",
        pruning.end_step(), ", and the run has ", steps,
        " steps: fewer weights are zero than its sparsity says; ", kAdvice));
  }
  const uint64_t begin = job.model().quantization_aware().begin_step();
  if (begin > 0 && begin >= steps) {
    warnings.push_back(absl::StrCat(
        "model.quantization_aware.begin_step is ", begin, ", and the run has ",
        steps, " steps: it was not trained to be quantised; ", kAdvice));
  }
  return warnings;
}

}  // namespace paramd
