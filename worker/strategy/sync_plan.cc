#include "worker/strategy/sync_plan.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/batch_rule.h"
#include "proto/member_name.h"

namespace paramd {

SyncPlan::SyncPlan(const Options& options, Steps* steps)
    : options_(options),
      steps_(*steps),
      cursor_({.worker = options.worker,
               .examples = options.examples,
               .epochs = options.job->epochs(),
               .batch = examples_per_push()}) {}

uint64_t SyncPlan::examples_per_push() const {
  return ExamplesPerPush(*options_.job, /*sync=*/true);
}

void SyncPlan::Configure(const v1::Configuration& configuration,
                         const v1::SessionId& generation) {
  if (!cursor_.Configure(configuration.contributors(), generation)) return;
  steps_.DropComputing();
  pushed_step_ = 0;
  if (steps_.pushing().has_value() &&
      steps_.pushing()->number >= cursor_.step()) {
    steps_.CancelPush();
  }
  // It would wait for a share that the servers have dropped.
  if (steps_.pulling() && pulling_step_ >= cursor_.step()) {
    steps_.CancelPull();
  }
}

void SyncPlan::Advance(const View& view, WorkerTurn* turn) {
  if (!view.draining && IsBetweenShares() && (!HasWeights() || HoldsShare())) {
    pulling_step_ = cursor_.step() - (HoldsShare() ? 0 : 1);
    steps_.StartPull(view.clock, pulling_step_, turn);
  }
  if (!view.draining && IsBetweenShares() && HasWeights() && !HoldsShare()) {
    StartShare(turn);
  }
  const TrainingStep* const computing = steps_.computing();
  if (computing != nullptr && computing->has_gradients()) {
    PushShare(view, turn);
  }
}

void SyncPlan::Pulled() {
  cursor_.Decided(pulling_step_);
  pulled_step_ = pulling_step_;
}

bool SyncPlan::HoldsShare() const {
  return pushed_step_ > 0 && pushed_step_ == cursor_.step();
}

bool SyncPlan::HasWeights() const {
  return pulled_step_.has_value() && *pulled_step_ + 1 == cursor_.step() &&
         !steps_.weights().are_used();
}

bool SyncPlan::IsBetweenShares() const {
  return cursor_.contributes() && !cursor_.finished() && !steps_.pulling() &&
         steps_.may_compute() && !steps_.pushing().has_value();
}

bool SyncPlan::finished() const {
  return cursor_.finished() && steps_.at_rest();
}

void SyncPlan::StartShare(WorkerTurn* turn) {
  const SyncCursor::Share share = cursor_.share();
  TrainingStep step;
  step.input.epoch = share.range.epoch;
  step.input.begin = share.range.begin;
  step.input.end = share.range.end;
  step.number = cursor_.step();
  step.examples = share.range.size();
  std::unique_ptr<v1::ComputeGradient> compute;
  if (share.range.size() > 0) {
    compute = std::make_unique<v1::ComputeGradient>();
    compute->set_epoch(share.range.epoch);
    compute->set_begin(share.range.begin);
    compute->set_end(share.range.end);
    compute->set_divide_by(share.step_examples);
    const InputCursor::Range next = cursor_.next_range();
    if (next.size() > 0) {
      compute->mutable_next()->set_epoch(next.epoch);
      compute->mutable_next()->set_begin(next.begin);
      compute->mutable_next()->set_end(next.end);
    }
  }
  steps_.StartComputing(std::move(step), std::move(compute), turn);
}

void SyncPlan::PushShare(const View& view, WorkerTurn* turn) {
  Session::PushInfo info;
  info.clock = view.clock;
  info.contributors = cursor_.contributors().version();
  steps_.StartPush(info, /*pull_behind=*/false, turn);
}

void SyncPlan::Late(uint64_t decided, WorkerTurn* turn) {
  steps_.AbandonComputing(turn);
  steps_.DropPush();
  cursor_.Decided(decided);
}

// A share that was pushed whole is refused as LATE.
bool SyncPlan::LeftOut(uint64_t step, WorkerTurn* turn) {
  if (cursor_.step() > step || steps_.may_compute()) return false;
  if (steps_.computes_in_vain()) return false;
  if (steps_.pushing().has_value()) steps_.CancelPush();
  steps_.DropComputing();
  Late(step, turn);
  return true;
}

std::string SyncPlan::waiting_for(const v1::SessionId& generation) const {
  if (cursor_.contributes()) return "";
  return absl::StrCat("the coordinator to let ",
                      WorkerName(options_.worker, generation), " contribute");
}

}  // namespace paramd
