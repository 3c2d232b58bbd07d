#include "coordinator/core/summaries.h"

#include <algorithm>
#include <functional>
#include <string>

#include "proto/metric_values.h"

namespace paramd {
namespace {

using Scalars = google::protobuf::Map<std::string, double>;

void AddWorkers(const std::vector<const v1::WorkerStats*>& workers,
                Scalars* scalars) {
  double examples = 0;
  for (const v1::WorkerStats* const stats : workers) {
    examples += stats->examples_per_second();
  }
  (*scalars)["workers"] = static_cast<double>(workers.size());
  (*scalars)["examples_per_second"] = examples;
}

void AddStaleness(const v1::Staleness& staleness, Scalars* scalars) {
  if (staleness.blocks() == 0) return;
  (*scalars)["staleness/mean"] = static_cast<double>(staleness.sum()) /
                                 static_cast<double>(staleness.blocks());
  int highest = staleness.histogram_size() - 1;
  while (highest > 0 && staleness.histogram(highest) == 0) --highest;
  (*scalars)["staleness/max"] =
      static_cast<double>((uint64_t{1} << std::max(highest, 0)) - 1);
}

void AddEvaluation(const v1::Evaluation& evaluation, Scalars* scalars) {
  for (const auto& [name, value] : MetricValues(evaluation)) {
    (*scalars)["evaluation/" + name] = value;
  }
  (*scalars)["evaluation/loss"] = evaluation.loss();
  for (const auto& [name, value] : SliceValues(evaluation)) {
    (*scalars)["evaluation/" + name] = value;
  }
}

// Whether `now` may go on from `before`: no count is lower. Another life of a
// server may soon have more blocks, but fewer of a kind.
bool GoesOn(const v1::Staleness& now, const v1::Staleness& before) {
  return now.blocks() >= before.blocks() && now.sum() >= before.sum() &&
         now.histogram_size() == before.histogram_size() &&
         std::equal(before.histogram().begin(), before.histogram().end(),
                    now.histogram().begin(), std::less_equal<uint64_t>());
}

// now - before, or all of `now` if it began anew.
v1::Staleness StalenessSince(const v1::Staleness& now,
                             const v1::Staleness& before) {
  if (!GoesOn(now, before)) return now;
  v1::Staleness difference;
  difference.set_blocks(now.blocks() - before.blocks());
  difference.set_sum(now.sum() - before.sum());
  for (int i = 0; i < now.histogram_size(); ++i) {
    difference.add_histogram(now.histogram(i) - before.histogram(i));
  }
  return difference;
}

void Add(const v1::Staleness& staleness, v1::Staleness* sum) {
  sum->set_blocks(sum->blocks() + staleness.blocks());
  sum->set_sum(sum->sum() + staleness.sum());
  for (int i = 0; i < staleness.histogram_size(); ++i) {
    if (i == sum->histogram_size()) sum->add_histogram(0);
    sum->set_histogram(i, sum->histogram(i) + staleness.histogram(i));
  }
}

}  // namespace

void Summaries::Begin(uint64_t step) {
  training_.Begin(step);
  if (every_steps_ == 0) return;
  begin_ = step;
  evaluation_.reset();
  last_evaluation_.Clear();
  next_ = (step / every_steps_ + 1) * every_steps_;
}

void Summaries::Told(uint32_t server, const v1::ConfigureReply& reply) {
  Server& known = servers_[server];
  known.newest = reply.staleness();
  known.learning_rate = reply.learning_rate();
}

void Summaries::Evaluated(const v1::Evaluation& evaluation) {
  if (evaluation.epoch() == last_evaluation_.epoch() &&
      evaluation.final() == last_evaluation_.final()) {
    return;
  }
  evaluation_ = last_evaluation_ = evaluation;
}

bool Summaries::IsDue(uint64_t step, bool ending, bool complete) const {
  if (every_steps_ == 0 || writing_) return false;
  return begin_.has_value() || evaluation_.has_value() ||
         HasFigures(step, ending, complete);
}

std::unique_ptr<v1::WriteSummary> Summaries::Take(
    uint64_t step, const std::vector<const v1::WorkerStats*>& workers,
    bool ending, bool complete) {
  auto summary = std::make_unique<v1::WriteSummary>();
  writing_ = true;
  if (begin_.has_value()) {
    summary->set_step(*begin_);
    summary->set_restarted(true);
    begin_.reset();
    return summary;
  }
  summary->set_step(step);
  Scalars* const scalars = summary->mutable_scalars();
  if (HasFigures(step, ending, complete)) {
    next_ = (step / every_steps_ + 1) * every_steps_;
    if (training_.has_unreported()) {
      for (const auto& [name, mean] : training_.TakeMeans()) {
        (*scalars)["train/" + name] = mean;
      }
    }
    AddWorkers(workers, scalars);
    AddStaleness(TakeStaleness(), scalars);
    if (LearningRate() > 0) (*scalars)["learning_rate"] = LearningRate();
  }
  if (evaluation_.has_value()) AddEvaluation(*evaluation_, scalars);
  evaluation_.reset();
  return summary;
}

v1::Staleness Summaries::TakeStaleness() {
  v1::Staleness sum;
  for (auto& [index, server] : servers_) {
    Add(StalenessSince(server.newest, server.taken), &sum);
    server.taken = server.newest;
  }
  return sum;
}

// Of the server that is furthest, as schedules fall; the others follow.
double Summaries::LearningRate() const {
  double lowest = 0;
  for (const auto& [index, server] : servers_) {
    if (server.learning_rate > 0 &&
        (lowest == 0 || server.learning_rate < lowest)) {
      lowest = server.learning_rate;
    }
  }
  return lowest;
}

}  // namespace paramd
