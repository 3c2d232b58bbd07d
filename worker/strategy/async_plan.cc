#include "worker/strategy/async_plan.h"

#include <memory>
#include <utility>

#include "config/batch_rule.h"

namespace paramd {

void AsyncPlan::Configure(const v1::Configuration& configuration,
                          const v1::SessionId& /*generation*/) {
  bounded_ = configuration.consistency().mode() != v1::Consistency::ASYNC;
}

// In this order: a push may bring weights where those that are there are used,
// and of steps that may be computed together none misses what another pushes.
void AsyncPlan::Advance(const View& view, WorkerTurn* turn) {
  if (!view.draining && MayCompute()) StartComputing(turn);
  if (!view.draining && MayPull()) {
    steps_.StartPull(view.clock, /*after_step=*/0, turn);
  }
  if (MayPush() && !view.stop) StartPush(view, turn);
}

void AsyncPlan::PushEnded(const TrainingStep& step) {
  input_.Used(step.input.portion, step.input.end);
}

bool AsyncPlan::finished() const {
  return input_.no_more() && input_.empty() && steps_.at_rest();
}

uint64_t AsyncPlan::examples_per_push() const {
  return ExamplesPerPush(*options_.job, /*sync=*/false);
}

// Where others may have to be waited for, a step begins with the last one's
// push.
size_t AsyncPlan::concurrent() const {
  return bounded_ ? 1 : steps_.concurrent();
}

// What is computed for a push that has ended still reads its weights. Not
// beside a push that brings weights: all steps that may be are under way then.
bool AsyncPlan::MayPull() const {
  return !steps_.pulling() && steps_.are_weights_used() &&
         !steps_.computes_in_vain() && steps_.under_way() < concurrent() &&
         !finished();
}

// In mode BOUNDED a server learns by the pull that the worker has got on.
bool AsyncPlan::MayPullBehind() const {
  return !bounded_ && !steps_.pulling() && steps_.are_weights_used() &&
         (input_.BatchesLeft(examples_per_push()) > 0 || !input_.no_more());
}

bool AsyncPlan::MayCompute() const {
  return steps_.may_compute(concurrent()) && !steps_.pulling() &&
         !steps_.are_weights_used() &&
         input_.BatchesLeft(examples_per_push()) > 0;
}

// Beside a pull it would be chance whether that brings what is pushed.
bool AsyncPlan::MayPush() const {
  const TrainingStep* const computing = steps_.computing();
  return computing != nullptr && computing->has_gradients() &&
         !steps_.pushing().has_value() && !steps_.pulling();
}

void AsyncPlan::StartComputing(WorkerTurn* turn) {
  TrainingStep step;
  step.input = *input_.TakeExamples(examples_per_push());
  step.examples = step.input.end - step.input.begin;
  auto compute = std::make_unique<v1::ComputeGradient>();
  compute->set_epoch(step.input.epoch);
  compute->set_portion(step.input.portion);
  compute->set_begin(step.input.begin);
  compute->set_end(step.input.end);
  steps_.StartComputing(std::move(step), std::move(compute), turn);
}

void AsyncPlan::StartPush(const View& view, WorkerTurn* turn) {
  Session::PushInfo info;
  info.clock = view.clock;
  info.snapshot = view.stamp;
  info.weights = &steps_.weights().copy(steps_.computing()->copy);
  steps_.StartPush(info, !view.draining && MayPullBehind(), turn);
}

}  // namespace paramd
