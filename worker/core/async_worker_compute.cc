// A worker's gradients, from the computation to the push.
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/paramd/v1/compute.pb.h"
#include "worker/core/async_worker.h"
#include "worker/core/operation_kind.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

// For the step in computing_.
void AsyncWorker::StartComputing(std::unique_ptr<v1::ComputeGradient> compute,
                                 Outbox* out) {
  compute_io_ = next_io_++;
  computing_->io = compute_io_;
  out->StartIo(compute_io_, std::move(compute));
  TakeGradients(out);
}

void AsyncWorker::AbandonComputing(Outbox* out) {
  if (compute_io_ == 0) return;
  out->StartIo(next_io_++, std::make_unique<v1::AbandonGradient>());
}

void AsyncWorker::TakeGradients(Outbox* out) {
  uint64_t bytes = 0;
  for (const uint64_t elements : session_->placement().elements()) {
    bytes += elements * sizeof(float);
  }
  if (take_io_ != 0 || bytes < options_.layers_from_bytes) return;
  take_io_ = next_io_++;
  taken_from_ = compute_io_;
  auto take = std::make_unique<v1::TakeGradients>();
  take->set_computation(taken_from_);
  out->StartIo(take_io_, std::move(take));
}

// Gradients of the last layers, or none: then the computation brings the rest.
void AsyncWorker::OnTaken(const IoResult& result, Time now, Outbox* out) {
  take_io_ = 0;
  const auto* taken =
      DynamicCastToGenerated<v1::TakeGradientsResult>(result.head.get());
  if (phase_ != Phase::kRunning || compute_io_ == 0) return;
  if (taken_from_ != compute_io_) return TakeGradients(out);
  if (taken == nullptr || taken->variables().empty()) return;
  std::vector<Buffer> gradients(session_->placement().elements().size());
  for (int i = 0; i < taken->variables_size(); ++i) {
    gradients[taken->variables(i)] = result.payload[i];
  }
  if (computing_.has_value()) {
    computing_->gradients.resize(gradients.size());
    for (size_t v = 0; v < gradients.size(); ++v) {
      if (!gradients[v].empty()) computing_->gradients[v] = gradients[v];
    }
  } else if (pushing_.has_value() && pushing_->io == compute_io_) {
    session_->AddGradients(MakeOp(kPush, pushes_started_), gradients, now, out);
  } else {
    return;  // Of no use any more.
  }
  TakeGradients(out);
}

void AsyncWorker::OnGradient(const IoResult& result, Time now, Outbox* out) {
  const IoId io = std::exchange(compute_io_, 0);
  const bool leaves = !computing_.has_value() && pushing_.has_value() &&
                      pushing_->io == io;
  if (phase_ != Phase::kRunning || !(leaves || computing_.has_value())) return;
  const absl::Status status = CheckGradient(result);
  if (!status.ok()) {
    out->Exit(status);
    return;
  }
  std::vector<Buffer> gradients(result.payload.begin(), result.payload.end());
  if (leaves) {
    session_->AddGradients(MakeOp(kPush, pushes_started_), gradients, now, out);
  } else {
    computing_->computed = true;
    computing_->gradients = std::move(gradients);
  }
}

absl::Status AsyncWorker::CheckGradient(const IoResult& result) const {
  const auto* computed =
      DynamicCastToGenerated<v1::ComputeGradientResult>(result.head.get());
  if (!result.status.ok()) return result.status;
  if (computed == nullptr) return absl::InternalError("no gradient came");
  if (std::isfinite(computed->loss())) return absl::OkStatus();
  const Step& step = computing_.has_value() ? *computing_ : *pushing_;
  return absl::FailedPreconditionError(absl::StrCat(
      "the loss is ", computed->loss(), " at step ", steps_started_,
      " of worker-", options_.index, " (epoch ", step.epoch,
      "); nothing of this step was pushed: lower optimizer.learning_rate or "
      "look at the input"));
}

}  // namespace paramd
