// A worker's steps in sync mode.
#include <utility>

#include "worker/core/async_worker.h"
#include "worker/core/operation_kind.h"

namespace paramd {

void AsyncWorker::AdvanceSync(Time now, Outbox* out) {
  if (MayPullStep()) {
    pulling_step_ = cursor_.step() - (HoldsShare() ? 0 : 1);
    ++pulls_started_;
    session_->StartPull(MakeOp(kPull, pulls_started_),
                        &weights_[pulls_started_ % 2], clock(), pulling_step_,
                        now, out);
  }
  if (MayComputeStep()) StartShare(out);
  if (computing_.has_value() && computing_->has_gradients()) {
    PushShare(now, out);
  }
}

// The servers have this worker's share of the next step.
bool AsyncWorker::HoldsShare() const {
  return pushed_step_ > 0 && pushed_step_ == cursor_.step();
}

bool AsyncWorker::HasWeights() const {
  return pulled_step_.has_value() && *pulled_step_ + 1 == cursor_.step();
}

bool AsyncWorker::IsBetweenShares() const {
  return !draining_ && cursor_.contributes() && !cursor_.finished() &&
         pulls_started_ == pulls_done_ && compute_io_ == 0 &&
         !computing_.has_value() && !pushing_.has_value();
}

bool AsyncWorker::MayPullStep() const {
  return IsBetweenShares() && (!HasWeights() || HoldsShare());
}

bool AsyncWorker::MayComputeStep() const {
  return IsBetweenShares() && HasWeights() && !HoldsShare();
}

void AsyncWorker::StartShare(Outbox* out) {
  const SyncCursor::Share share = cursor_.share();
  ++steps_started_;
  computing_.emplace();
  computing_->epoch = share.range.epoch;
  computing_->begin = share.range.begin;
  computing_->end = share.range.end;
  computing_->number = cursor_.step();
  computing_->examples = share.range.size();
  if (share.range.size() == 0) {
    computing_->computed = true;
    return;
  }
  auto compute = std::make_unique<v1::ComputeGradient>();
  compute->set_epoch(share.range.epoch);
  compute->set_begin(share.range.begin);
  compute->set_end(share.range.end);
  compute->set_weights_buffer(pulls_done_ % 2);
  compute->set_divide_by(share.step_examples);
  StartComputing(std::move(compute), out);
}

void AsyncWorker::PushShare(Time now, Outbox* out) {
  pushing_ = std::move(computing_);
  computing_.reset();
  Session::PushInfo info;
  info.sequence = ++pushes_started_;
  info.clock = clock();
  info.epoch = pushing_->epoch;
  info.input_begin = pushing_->begin;
  info.input_end = pushing_->end;
  info.step = pushing_->number;
  info.contributors = cursor_.contributors().version();
  info.examples = pushing_->examples;
  session_->StartPush(MakeOp(kPush, pushes_started_), info,
                      std::move(pushing_->gradients), now, out);
}

// A step that is not decided begins anew with other contributors; what was
// pushed to an earlier one is or is not in, which the servers know.
void AsyncWorker::OnConfiguration(const v1::Configuration& configuration) {
  sync_ = configuration.consistency().mode() == v1::Consistency::SYNC;
  async_ = configuration.consistency().mode() == v1::Consistency::ASYNC;
  if (!sync_ ||
      !cursor_.Configure(configuration.contributors(), generation_)) {
    return;
  }
  computing_.reset();
  pushed_step_ = 0;
  if (pushing_.has_value() && pushing_->number >= cursor_.step()) {
    session_->Cancel(MakeOp(kPush, pushes_started_));
    pushing_.reset();
  }
  // It would wait for a share that the servers have dropped.
  if (pulls_started_ > pulls_done_ && pulling_step_ >= cursor_.step()) {
    session_->Cancel(MakeOp(kPull, pulls_started_));
    --pulls_started_;
  }
}

void AsyncWorker::OnLate(uint64_t decided, Outbox* out) {
  ++late_;
  AbandonComputing(out);
  pushing_.reset();
  cursor_.Decided(decided);
}

// What is still computed for that step is of no use any more. A share that was
// pushed whole is refused as LATE.
void AsyncWorker::OnLeftOut(uint64_t step, Outbox* out) {
  if (!sync_ || cursor_.step() > step || compute_io_ == 0) return;
  if (pushing_.has_value()) {
    session_->Cancel(MakeOp(kPush, pushes_started_));
  } else if (!computing_.has_value()) {
    return;
  }
  computing_.reset();
  OnLate(step, out);
}

}  // namespace paramd
