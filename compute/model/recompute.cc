#include "compute/model/recompute.h"

#include <algorithm>
#include <utility>

namespace paramd {

Recompute::Recompute(std::string name, std::unique_ptr<Sequence> layers)
    : Layer(std::move(name), layers->input_dims(), layers->output_dims()),
      layers_(std::move(layers)) {
  variables_ = layers_->variables();
}

Recompute::Laid Recompute::Lay(uint64_t examples, DType dtype,
                               std::byte* memory) const {
  Arena arena(memory);
  Laid laid;
  laid.kept = arena.TakeBytes(layers_->KeptBytes(examples, dtype));
  if (!layers_->reads_output()) {
    laid.output = arena.Take(dtype, Batched(examples, output_dims()));
  }
  laid.bytes = arena.used();
  return laid;
}

uint64_t Recompute::ScratchBytes(uint64_t examples, DType dtype) const {
  return Lay(examples, dtype, nullptr).bytes +
         layers_->ScratchBytes(examples, dtype);
}

void Recompute::Forward(const Pass& pass) const {
  const Context& context = *pass.context;
  const Laid laid = Lay(context.examples, context.dtype, pass.scratch);
  Pass inner = pass;
  inner.kept = laid.kept;
  inner.scratch = pass.scratch + laid.bytes;
  layers_->Forward(inner);
}

void Recompute::Backward(const BackwardPass& pass) const {
  const Context& context = *pass.context;
  const Laid laid = Lay(context.examples, context.dtype, pass.scratch);
  BackwardPass inner = pass;
  inner.kept = laid.kept;
  inner.scratch = pass.scratch + laid.bytes;
  // What lies at the output may be another's by now.
  if (!layers_->reads_output()) inner.output = laid.output;
  KeepAgain(inner);
  layers_->Backward(inner);
}

uint64_t Recompute::flops() const {
  return layers_->flops() + layers_->flops_again();
}

void Recompute::AddCost(int depth, std::vector<LayerCost>* costs) const {
  const size_t place = costs->size();
  Layer::AddCost(depth, costs);
  layers_->AddCost(depth + 1, costs);
  uint64_t within = 0;
  for (size_t i = place + 1; i < costs->size(); ++i) {
    within = std::max(within, (*costs)[i].recomputed_bytes);
  }
  (*costs)[place].recomputed_bytes =
      layers_->KeptBytes(1, DType::kFloat32) + within;
}

}  // namespace paramd
