#include "worker/core/computation.h"

#include <utility>

#include "base/check.h"
#include "proto/paramd/v1/compute.pb.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void Computation::Collect(const v1::ComputeGradient& compute,
                          WorkerTurn* turn) {
  CHECK(!busy(), "one gradient is computed at a time");
  auto collect = std::make_unique<v1::CollectRows>();
  *collect->mutable_compute() = compute;
  io_ = turn->StartIo(std::move(collect));
}

void Computation::Start(std::unique_ptr<v1::ComputeGradient> compute,
                        BufferChain weights, size_t copy, bool by_layers,
                        WorkerTurn* turn) {
  CHECK(!busy(), "one gradient is computed at a time");
  copy_ = copy;
  by_layers_ = by_layers;
  io_ = turn->StartIo(std::move(compute), std::move(weights));
  AskForMore(turn);
}

void Computation::Abandon(WorkerTurn* turn) {
  if (!busy()) return;
  turn->StartIo(std::make_unique<v1::AbandonGradient>());
}

void Computation::AskForMore(WorkerTurn* turn) {
  if (take_io_ != 0 || !by_layers_) return;
  taken_from_ = io_;
  auto take = std::make_unique<v1::TakeGradients>();
  take->set_computation(taken_from_);
  take_io_ = turn->StartIo(std::move(take));
}

std::vector<Buffer> Computation::TakePart(const IoResult& result,
                                          size_t variables, WorkerTurn* turn) {
  take_io_ = 0;
  std::vector<Buffer> gradients;
  const auto* taken =
      DynamicCastToGenerated<v1::TakeGradientsResult>(result.head.get());
  if (!busy()) return gradients;
  if (taken_from_ != io_) {
    AskForMore(turn);  // That was of the one before.
    return gradients;
  }
  if (taken == nullptr || taken->variables().empty()) return gradients;
  gradients.resize(variables);
  for (int i = 0; i < taken->variables_size(); ++i) {
    gradients[taken->variables(i)] = result.payload[i];
  }
  return gradients;
}

}  // namespace paramd
