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
             const WeightMemory& memory)
    : session_(session),
      computation_(computation),
      observer_(observer),
      weights_(session->placement(), memory, computation) {
  uint64_t bytes = 0;
  for (const PlacedSlice& slice : session->placement().slices()) {
    if (!slice.sparse) bytes += slice.elements * sizeof(float);
  }
  by_layers_ = bytes >= layers_from_bytes;
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
  return computation_->busy() && at_rest();
}

void Steps::StartComputing(TrainingStep step,
                           std::unique_ptr<v1::ComputeGradient> compute,
                           WorkerTurn* turn) {
  ++steps_started_;
  computing_ = std::move(step);
  if (compute == nullptr) {
    computing_->computed = true;
    return;
  }
  compute_ = std::move(compute);
  if (session_->placement().sparse().empty()) {
    return Compute(weights_.present().buffers(), turn);
  }
  computation_->Collect(*compute_, turn);
  computing_->io = computation_->io();
}

void Steps::Compute(BufferChain weights, WorkerTurn* turn) {
  computation_->Start(std::move(compute_), std::move(weights),
                      weights_.number(), by_layers_, turn);
  computing_->io = computation_->io();
}

absl::Status Steps::TakeRows(const IoResult& result, WorkerTurn* turn) {
  ASSIGN_OR_RETURN(SparseRows rows, SparseRows::Create(session_->placement(),
                                                       {result.payload.begin(),
                                                        result.payload.end()}));
  computing_->rows = std::make_unique<SparseRows>(std::move(rows));
  StartLookup(turn);
  return absl::OkStatus();
}

// What the pull had to wait for, the rows have to: they are of the same
// weights.
void Steps::StartLookup(WorkerTurn* turn) {
  session_->StartLookup(MakeOp(kLookup, steps_started_), computing_->rows.get(),
                        obtained_.clock, obtained_.after_step, turn->now,
                        turn->out);
}

void Steps::LookedUp(bool given_up, WorkerTurn* turn) {
  if (given_up) return StartLookup(turn);
  Compute(computing_->rows->HandOut(weights_.present().buffers()), turn);
}

void Steps::DropComputing() {
  session_->Cancel(MakeOp(kLookup, steps_started_));
  computing_.reset();
}

const TrainingStep* Steps::Note(IoId io,
                                const v1::ComputeGradientResult& result) {
  for (absl::optional<TrainingStep>* step :
       {&computing_, &pushing_, &acknowledged_}) {
    if (!step->has_value() || (*step)->io != io) continue;
    (*step)->noted = true;
    (*step)->computed_examples = result.examples();
    (*step)->left_out =
        (*step)->examples - std::min((*step)->examples, result.examples());
    (*step)->loss = result.loss();
    (*step)->metrics = result.metrics();
    if (step == &acknowledged_) return &*acknowledged_;
  }
  return nullptr;
}

void Steps::TakePart(const IoResult& part, WorkerTurn* turn) {
  const std::vector<Buffer> gradients = computation_->TakePart(
      part, session_->placement().elements().size(), turn);
  const bool leaves =
      pushing_.has_value() && pushing_->io == computation_->io();
  // Else they are of no use any more.
  if (gradients.empty() || !(computing_.has_value() || leaves)) return;
  if (computing_.has_value()) {
    computing_->left_out =
        DynamicCastToGenerated<v1::TakeGradientsResult>(part.head.get())
            ->left_out();
  }
  Add(gradients, turn);
  computation_->AskForMore(turn);
}

// To the push of what is computed, if it has begun to leave.
void Steps::Add(const std::vector<Buffer>& gradients, WorkerTurn* turn) {
  if (!computing_.has_value()) {
    session_->AddGradients(MakeOp(kPush, pushes_started_), gradients, turn->now,
                           turn->out);
    return;
  }
  computing_->gradients.resize(gradients.size());
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (!gradients[v].empty()) computing_->gradients[v] = gradients[v];
  }
}

absl::Status Steps::TakeResult(const IoResult& result, uint32_t worker,
                               WorkerTurn* turn) {
  const bool leaves = pushing_.has_value() && pushing_->io == result.io;
  if (!(leaves || computing_.has_value())) return absl::OkStatus();
  const auto* computed =
      DynamicCastToGenerated<v1::ComputeGradientResult>(result.head.get());
  if (!result.status.ok()) return result.status;
  if (DynamicCastToGenerated<v1::CollectRowsResult>(result.head.get()) !=
      nullptr) {
    return TakeRows(result, turn);
  }
  if (computed == nullptr) return absl::InternalError("no gradient came");
  if (!std::isfinite(computed->loss())) {
    const TrainingStep& step = computing_.has_value() ? *computing_ : *pushing_;
    return absl::FailedPreconditionError(absl::StrCat(
        "the loss is ", computed->loss(), " at step ", steps_started_,
        " of worker-", worker, " (epoch ", step.input.epoch,
        "); nothing of this step was pushed: lower optimizer.learning_rate or "
        "look at the input"));
  }
  Add({result.payload.begin(), result.payload.end()}, turn);
  if (computing_.has_value()) computing_->computed = true;
  return absl::OkStatus();
}

// ---- pushes -----------------------------------------------------------------

void Steps::StartPush(Session::PushInfo info, bool pull_behind,
                      WorkerTurn* turn) {
  push_began_ = turn->now;
  pushing_ = std::move(computing_);
  computing_.reset();
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
    weights_.Pulled();
  }
  TrainingStep ended = *std::move(pushing_);
  pushing_.reset();
  return ended;
}

void Steps::CancelPush() {
  session_->Cancel(MakeOp(kPush, pushes_started_));
  pushing_.reset();
}

}  // namespace paramd
