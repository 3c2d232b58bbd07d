#include "compute/model/residual.h"

#include <algorithm>
#include <utility>

#include "compute/model/drops.h"

namespace paramd {

Residual::Residual(std::string name, std::unique_ptr<Sequence> body,
                   std::unique_ptr<Sequence> shortcut, double drop_rate)
    : Layer(std::move(name), body->input_dims(), body->output_dims()),
      body_(std::move(body)),
      shortcut_(std::move(shortcut)),
      drop_rate_(drop_rate) {
  variables_ = body_->variables();
  if (shortcut_ == nullptr) return;
  variables_.insert(variables_.end(), shortcut_->variables().begin(),
                    shortcut_->variables().end());
}

Residual::Kept Residual::Lay(uint64_t examples, DType dtype,
                             std::byte* memory) const {
  Arena arena(memory);
  Kept kept;
  if (body_->reads_output()) {
    kept.body = arena.Take(dtype, Batched(examples, output_dims()));
  }
  kept.of_body = arena.TakeBytes(body_->KeptBytes(examples, dtype));
  if (shortcut_ != nullptr) {
    if (shortcut_->reads_output()) {
      kept.shortcut = arena.Take(dtype, Batched(examples, output_dims()));
    }
    kept.of_shortcut = arena.TakeBytes(shortcut_->KeptBytes(examples, dtype));
  }
  if (drop_rate_ > 0) kept.factors = arena.Take(dtype, {examples});
  kept.bytes = arena.used();
  return kept;
}

uint64_t Residual::KeptBytes(uint64_t examples, DType dtype) const {
  return Lay(examples, dtype, nullptr).bytes;
}

uint64_t Residual::ScratchBytes(uint64_t examples, DType dtype) const {
  Arena arena(nullptr);
  arena.Take(dtype, Batched(examples, output_dims()));
  arena.Take(dtype, Batched(examples, input_dims()));
  const uint64_t shortcut =
      shortcut_ == nullptr ? 0 : shortcut_->ScratchBytes(examples, dtype);
  return arena.used() +
         std::max(body_->ScratchBytes(examples, dtype), shortcut);
}

Layer::Pass Residual::BodyPass(const Pass& pass, const Kept& kept) const {
  Pass inner = pass;
  inner.weights = pass.weights.first(body_->variables().size());
  if (body_->reads_output()) inner.output = kept.body;
  inner.kept = kept.of_body;
  return inner;
}

Layer::Pass Residual::ShortcutPass(const Pass& pass, const Kept& kept) const {
  Pass inner = pass;
  inner.weights = pass.weights.subspan(body_->variables().size());
  Arena arena(pass.scratch);
  inner.output = arena.Take(pass.context->dtype, pass.output.dims);
  inner.scratch = pass.scratch + arena.used();
  if (shortcut_->reads_output()) inner.output = kept.shortcut;
  inner.kept = kept.of_shortcut;
  return inner;
}

void Residual::Forward(const Pass& pass) const {
  const Context& context = *pass.context;
  const Kept kept = Lay(context.examples, context.dtype, pass.kept);
  const Pass through = BodyPass(pass, kept);
  body_->Forward(through);
  ConstTensor around = pass.input;
  if (shortcut_ != nullptr) {
    const Pass beside = ShortcutPass(pass, kept);
    shortcut_->Forward(beside);
    around = beside.output;
  }
  ConstTensor body = through.output;
  if (drop_rate_ > 0 && context.training) {
    DrawFactors(context, name(), drop_rate_, /*width=*/1, kept.factors);
    context.device->ScaleRows(body, kept.factors, pass.output);
    body = pass.output;
  }
  context.device->Add(body, 1, around, pass.output);
}

Residual::Deferred Residual::LayDeferred(uint64_t examples, DType dtype,
                                         bool wanted, std::byte* memory) const {
  Arena arena(memory);
  Deferred deferred;
  if (drop_rate_ > 0) {
    deferred.scaled = arena.Take(dtype, Batched(examples, output_dims()));
  }
  deferred.of_body =
      arena.TakeBytes(body_->DeferredBytes(examples, dtype, wanted));
  if (shortcut_ != nullptr) {
    deferred.of_shortcut =
        arena.TakeBytes(shortcut_->DeferredBytes(examples, dtype, wanted));
  }
  deferred.bytes = arena.used();
  return deferred;
}

void Residual::BackwardOf(Part part, const BackwardPass& pass) const {
  const Context& context = *pass.context;
  const Kept kept = Lay(context.examples, context.dtype, pass.kept);
  const Deferred deferred =
      part == Part::kWhole
          ? Deferred()
          : LayDeferred(context.examples, context.dtype,
                        pass.input_gradient.data != nullptr, pass.deferred);
  Arena arena(pass.scratch);
  Tensor scaled =
      arena.Take(context.dtype, Batched(context.examples, output_dims()));
  if (deferred.scaled.data != nullptr) scaled = deferred.scaled;
  const Tensor around =
      arena.Take(context.dtype, Batched(context.examples, input_dims()));
  BackwardPass inner = pass;
  static_cast<Pass&>(inner) = BodyPass(pass, kept);
  inner.scratch = pass.scratch + arena.used();
  inner.gradients = pass.gradients.first(body_->variables().size());
  inner.deferred = deferred.of_body;
  if (drop_rate_ > 0) {
    if (part != Part::kVariables) {
      context.device->ScaleRows(pass.output_gradient, kept.factors, scaled);
    }
    inner.output_gradient = scaled;
  }
  body_->BackwardPart(part, inner);
  const bool wanted = pass.input_gradient.data != nullptr;
  const bool adds = wanted && part != Part::kVariables;
  if (shortcut_ == nullptr) {
    if (!adds) return;
    context.device->Add(pass.input_gradient, 1, pass.output_gradient,
                        pass.input_gradient);
    return;
  }
  static_cast<Pass&>(inner) = ShortcutPass(pass, kept);
  inner.scratch = pass.scratch + arena.used();
  inner.gradients = pass.gradients.subspan(body_->variables().size());
  inner.output_gradient = pass.output_gradient;
  if (wanted) inner.input_gradient.data = around.data;
  inner.deferred = deferred.of_shortcut;
  shortcut_->BackwardPart(part, inner);
  if (!adds) return;
  context.device->Add(pass.input_gradient, 1, around, pass.input_gradient);
}

uint64_t Residual::flops() const {
  return body_->flops() + output_size() +
         (shortcut_ == nullptr ? 0 : shortcut_->flops());
}

void Residual::AddCost(int depth, std::vector<LayerCost>* costs) const {
  Layer::AddCost(depth, costs);
  body_->AddCost(depth + 1, costs);
  if (shortcut_ != nullptr) shortcut_->AddCost(depth + 1, costs);
}

}  // namespace paramd
