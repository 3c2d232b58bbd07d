#include "worker/strategy/steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/paramd/v1/compute.pb.h"
#include "worker/core/operation_kind.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

Steps::Steps(Session* session, Computation* computation,
             uint64_t layers_from_bytes, StepObserver* observer,
             const WeightMemory& memory, size_t concurrent)
    : session_(session),
      computation_(computation),
      observer_(observer),
      concurrent_(concurrent),
      weights_(session->placement(), memory, computation, concurrent + 1) {
  uint64_t bytes = 0;
  for (const PlacedSlice& slice : session->placement().slices()) {
    if (!slice.sparse) bytes += slice.elements * sizeof(float);
  }
  by_layers_ = concurrent == 1 && bytes >= layers_from_bytes;
}

// ---- pulls ------------------------------------------------------------------

void Steps::StartPull(uint64_t clock, uint64_t after_step, WorkerTurn* turn) {
  ++pulls_started_;
  asked_ = {clock, after_step};
  pull_began_ = turn->now;
  session_->StartPull(MakeOp(kPull, pulls_started_), weights_.PullInto(), clock,
                      after_step, turn->now, turn->out);
}

void Steps::Pulled(bool given_up, Time now) {
  given_up ? --pulls_started_ : ++pulls_done_;
  if (!given_up) {
    obtained_ = asked_;
    used_ = false;
    weights_.Pulled();
  }
  if (observer_ == nullptr || given_up) return;
  observer_->Pulled(/*with_push=*/false, pull_began_, now);
}

void Steps::CancelPull() {
  session_->Cancel(MakeOp(kPull, pulls_started_));
  --pulls_started_;
}

// ---- computing --------------------------------------------------------------

bool Steps::computes_in_vain() const {
  return computation_->under_way() > under_way();
}

void Steps::StartComputing(TrainingStep step,
                           std::unique_ptr<v1::ComputeGradient> compute,
                           WorkerTurn* turn) {
  ++steps_started_;
  used_ = true;
  step.ordinal = steps_started_;
  step.copy = weights_.number();
  computing_.push_back(std::move(step));
  if (compute == nullptr) {
    computing_.back().computed = true;
    return;
  }
  compute_ = std::move(compute);
  if (session_->placement().sparse().empty()) {
    return Compute(weights_.present().buffers(), turn);
  }
  computation_->Collect(*compute_, turn);
  computing_.back().io = computation_->io();
}

void Steps::Compute(BufferChain weights, WorkerTurn* turn) {
  computation_->Start(std::move(compute_), std::move(weights),
                      computing_.back().copy, by_layers_, turn);
  computing_.back().io = computation_->io();
}

absl::Status Steps::TakeRows(const IoResult& result, WorkerTurn* turn) {
  ASSIGN_OR_RETURN(SparseRows rows, SparseRows::Create(session_->placement(),
                                                       {result.payload.begin(),
                                                        result.payload.end()}));
  computing_.front().rows = std::make_unique<SparseRows>(std::move(rows));
  StartLookup(turn);
  return absl::OkStatus();
}

// What the pull had to wait for, the rows have to: they are of the same
// weights.
void Steps::StartLookup(WorkerTurn* turn) {
  session_->StartLookup(MakeOp(kLookup, steps_started_),
                        computing_.front().rows.get(), obtained_.clock,
                        obtained_.after_step, turn->now, turn->out);
}

void Steps::LookedUp(bool given_up, WorkerTurn* turn) {
  if (given_up) return StartLookup(turn);
  Compute(computing_.front().rows->HandOut(weights_.present().buffers()), turn);
}

void Steps::DropComputing() {
  session_->Cancel(MakeOp(kLookup, steps_started_));
  computing_.clear();
}

TrainingStep* Steps::ComputingBy(IoId io) {
  for (TrainingStep& step : computing_) {
    if (step.io == io) return &step;
  }
  return nullptr;
}

const TrainingStep* Steps::Note(IoId io,
                                const v1::ComputeGradientResult& result) {
  for (TrainingStep* const step :
       {ComputingBy(io), pushing_.has_value() ? &*pushing_ : nullptr,
        acknowledged_.has_value() ? &*acknowledged_ : nullptr}) {
    if (step == nullptr || step->io != io) continue;
    step->noted = true;
    step->computed_examples = result.examples();
    step->left_out =
        step->examples - std::min(step->examples, result.examples());
    step->loss = result.loss();
    step->metrics = result.metrics();
  }
  const bool is_told = acknowledged_.has_value() && acknowledged_->io == io;
  return is_told ? &*acknowledged_ : nullptr;
}

void Steps::TakePart(const IoResult& part, WorkerTurn* turn) {
  if (!computation_->TakePart(turn)) return;
  const auto* const taken =
      DynamicCastToGenerated<v1::TakeGradientsResult>(part.head.get());
  if (taken == nullptr || taken->variables().empty()) return;
  TrainingStep* const computing =
      computing_.empty() ? nullptr : &computing_.front();
  const bool leaves =
      pushing_.has_value() && pushing_->io == computation_->io();
  if (computing == nullptr && !leaves) return;  // Of no use any more.
  if (computing != nullptr) computing->left_out = taken->left_out();
  std::vector<Buffer> gradients(session_->placement().elements().size());
  for (int i = 0; i < taken->variables_size(); ++i) {
    gradients[taken->variables(i)] = part.payload[i];
  }
  Add(gradients, computing, turn);
  computation_->AskForMore(turn);
}

// Null: the push of what is computed has begun to leave.
void Steps::Add(const std::vector<Buffer>& gradients, TrainingStep* step,
                WorkerTurn* turn) {
  if (step == nullptr) {
    session_->AddGradients(MakeOp(kPush, pushes_started_), gradients, turn->now,
                           turn->out);
    return;
  }
  step->gradients.resize(gradients.size());
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (!gradients[v].empty()) step->gradients[v] = gradients[v];
  }
}

absl::Status Steps::TakeResult(const IoResult& result, uint32_t worker,
                               WorkerTurn* turn) {
  TrainingStep* const computing = ComputingBy(result.io);
  const bool leaves = pushing_.has_value() && pushing_->io == result.io;
  if (!(leaves || computing != nullptr)) return absl::OkStatus();
  const auto* computed =
      DynamicCastToGenerated<v1::ComputeGradientResult>(result.head.get());
  if (!result.status.ok()) return result.status;
  if (DynamicCastToGenerated<v1::CollectRowsResult>(result.head.get()) !=
      nullptr) {
    return TakeRows(result, turn);
  }
  if (computed == nullptr) return absl::InternalError("no gradient came");
  if (!std::isfinite(computed->loss())) {
    const TrainingStep& step = computing != nullptr ? *computing : *pushing_;
    return absl::FailedPreconditionError(absl::StrCat(
        "the loss is ", computed->loss(), " at step ", step.ordinal,
        " of worker-", worker, " (epoch ", step.input.epoch,
        "); nothing of this step was pushed: lower optimizer.learning_rate or "
        "look at the input"));
  }
  Add({result.payload.begin(), result.payload.end()}, computing, turn);
  if (computing != nullptr) computing->computed = true;
  return absl::OkStatus();
}

// ---- pushes -----------------------------------------------------------------

void Steps::StartPush(Session::PushInfo info, bool pull_behind,
                      WorkerTurn* turn) {
  push_began_ = turn->now;
  pushing_ = std::move(computing_.front());
  computing_.pop_front();
  info.sequence = ++pushes_started_;
  info.epoch = pushing_->input.epoch;
  info.input_begin = pushing_->input.begin;
  info.input_end = pushing_->input.end;
  info.step = pushing_->number;
  info.rows = pushing_->rows.get();
  // In sync mode servers divide by what contributors say, so what the input
  // leaves out changes no step's size. In every mode a push of which nothing is
  // left has no numbers: zeros would move momenta, and decay weights.
  const uint64_t left =
      pushing_->examples - std::min(pushing_->examples, pushing_->left_out);
  if (pushing_->number > 0) info.examples = left;
  info.empty = left == 0;
  if (info.empty) pushing_->gradients.clear();
  if (pull_behind) info.pull_into = weights_.PullInto();
  session_->StartPush(MakeOp(kPush, pushes_started_), info,
                      std::move(pushing_->gradients), turn->now, turn->out);
}

const TrainingStep* Steps::Acknowledged() {
  if (pushing_->noted) return &*pushing_;
  acknowledged_.emplace();
  acknowledged_->input = pushing_->input;
  acknowledged_->number = pushing_->number;
  acknowledged_->examples = pushing_->examples;
  acknowledged_->io = pushing_->io;
  return nullptr;
}

TrainingStep Steps::PushEnded(bool pulled, Time now) {
  ++pushes_ended_;
  if (observer_ != nullptr) {
    observer_->Pushed(push_began_, now);
    if (pulled) observer_->Pulled(/*with_push=*/true, push_began_, now);
  }
  if (pulled) {
    pulls_done_ = ++pulls_started_;
    used_ = false;
    weights_.Pulled();
  }
  TrainingStep ended = *std::move(pushing_);
  DropPush();
  return ended;
}

void Steps::CancelPush() {
  session_->Cancel(MakeOp(kPush, pushes_started_));
  DropPush();
}

}  // namespace paramd
