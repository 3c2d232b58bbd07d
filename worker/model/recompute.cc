#include "worker/model/recompute.h"

#include <algorithm>
#include <utility>

namespace paramd {

Recompute::Recompute(std::string name, std::unique_ptr<Sequence> layers)
    : Layer(std::move(name), layers->input_dims(), layers->output_dims()),
      layers_(std::move(layers)) {
  variables_ = layers_->variables();
}

uint64_t Recompute::ScratchBytes(uint64_t examples, DType dtype) const {
  return layers_->KeptBytes(examples, dtype) +
         layers_->ScratchBytes(examples, dtype);
}

Layer::Pass Recompute::Enter(const Pass& pass) const {
  const Context& context = *pass.context;
  Pass inner = pass;
  inner.kept = pass.scratch;
  inner.scratch =
      pass.scratch + layers_->KeptBytes(context.examples, context.dtype);
  return inner;
}

void Recompute::Forward(const Pass& pass) const {
  layers_->Forward(Enter(pass));
}

void Recompute::Backward(const BackwardPass& pass) const {
  BackwardPass inner = pass;
  static_cast<Pass&>(inner) = Enter(pass);
  layers_->KeepAgain(inner);
  layers_->Backward(inner);
}

absl::StatusOr<HloValue> Recompute::Emit(const ProgramPass& pass) const {
  return layers_->Emit(pass);
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
