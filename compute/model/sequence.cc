#include "compute/model/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paramd {

Sequence::Sequence(std::string name, const Layers& layers)
    : Layer(std::move(name), layers.front()->input_dims(),
            layers.back()->output_dims()) {
  for (const std::shared_ptr<const Layer>& layer : layers) {
    if (!layer->is_view()) last_ = count();
    Stage stage;
    stage.first_variable = variables_.size();
    variables_.insert(variables_.end(), layer->variables().begin(),
                      layer->variables().end());
    stage.layer = layer;
    stages_.push_back(std::move(stage));
  }
}

std::unique_ptr<Sequence> Sequence::Range(size_t begin, size_t end) const {
  Layers layers;
  for (size_t i = begin; i < end; ++i) layers.push_back(stages_[i].layer);
  return std::make_unique<Sequence>(name(), layers);
}

uint64_t Sequence::OutputBytes(int stage, uint64_t examples,
                               DType dtype) const {
  if (stage == last_) return 0;
  return Aligned(examples * stages_[stage].layer->output_size() *
                 SizeOf(dtype));
}

uint64_t Sequence::StageBytes(int stage, uint64_t examples, DType dtype) const {
  const Layer& layer = *stages_[stage].layer;
  if (layer.is_view()) return 0;
  return OutputBytes(stage, examples, dtype) +
         Aligned(layer.KeptBytes(examples, dtype));
}

uint64_t Sequence::GradientBytes(uint64_t examples, DType dtype) const {
  uint64_t largest = 0;
  for (const Stage& stage : stages_) {
    if (stage.layer->is_view()) continue;
    largest = std::max(largest, stage.layer->input_size());
  }
  return Aligned(examples * largest * SizeOf(dtype));
}

uint64_t Sequence::KeptBytes(uint64_t examples, DType dtype) const {
  uint64_t bytes = 0;
  for (int i = 0; i < count(); ++i) bytes += StageBytes(i, examples, dtype);
  return bytes;
}

uint64_t Sequence::ScratchBytes(uint64_t examples, DType dtype) const {
  uint64_t bytes = 0;
  for (const Stage& stage : stages_) {
    bytes = std::max(bytes, stage.layer->ScratchBytes(examples, dtype));
  }
  return 2 * GradientBytes(examples, dtype) + bytes;
}

Sequence::Needs Sequence::NeedsIfRecomputed(uint64_t examples,
                                            DType dtype) const {
  Needs needs;
  for (int i = 0; i < count(); ++i) {
    const Layer& layer = *stages_[i].layer;
    uint64_t scratch = layer.ScratchBytes(examples, dtype);
    if (layer.keeps_layers()) {
      // As of a sequence of this layer alone.
      if (!layer.reads_output()) {
        scratch += Aligned(examples * layer.output_size() * SizeOf(dtype));
      }
      scratch += Aligned(layer.KeptBytes(examples, dtype)) +
                 2 * Aligned(examples * layer.input_size() * SizeOf(dtype));
      needs.kept += OutputBytes(i, examples, dtype);
    } else {
      needs.kept += StageBytes(i, examples, dtype);
    }
    needs.scratch = std::max(needs.scratch, scratch);
  }
  needs.scratch += 2 * GradientBytes(examples, dtype);
  return needs;
}

int Sequence::Before(int stage) const {
  while (--stage >= 0 && stages_[stage].layer->is_view()) {
  }
  return stage;
}

Layer::Pass Sequence::Enter(int i, const Pass& pass, std::byte* kept) const {
  const Stage& stage = stages_[i];
  const Layer& layer = *stage.layer;
  const Context& context = *pass.context;
  const int before = Before(i);
  Pass inner;
  inner.context = &context;
  inner.weights =
      pass.weights.subspan(stage.first_variable, layer.variables().size());
  inner.input = pass.input;
  if (before >= 0) {
    inner.input.data =
        kept - StageBytes(before, context.examples, context.dtype);
    inner.input.dtype = context.dtype;
  }
  inner.input.dims = Batched(context.examples, layer.input_dims());
  inner.output = {i == last_ ? pass.output.data : kept, context.dtype,
                  Batched(context.examples, layer.output_dims())};
  inner.kept = kept + OutputBytes(i, context.examples, context.dtype);
  inner.scratch =
      pass.scratch + 2 * GradientBytes(context.examples, context.dtype);
  return inner;
}

void Sequence::ForwardUntil(int end, const Pass& pass, Needed needed) const {
  const Context& context = *pass.context;
  std::byte* kept = pass.kept;
  for (int i = 0; i < end; ++i) {
    const Layer& layer = *stages_[i].layer;
    if (layer.is_view()) continue;
    if (context.IsAbandoned()) return;
    for (size_t v = 0; v < layer.variables().size(); ++v) {
      needed(stages_[i].first_variable + v);
    }
    layer.Forward(Enter(i, pass, kept));
    kept += StageBytes(i, context.examples, context.dtype);
  }
}

void Sequence::ForwardWith(const Pass& pass, Needed needed) const {
  ForwardUntil(count(), pass, needed);
  if (last_ < 0) {
    pass.context->device->Copy(pass.input.data,
                               pass.input.size() * SizeOf(pass.input.dtype),
                               pass.output.data);
  }
}

int Sequence::end_again() const {
  if (last_ < 0) return 0;
  const bool keeps = stages_[last_].layer->KeptBytes(1, DType::kFloat32) > 0;
  return keeps ? last_ + 1 : last_;
}

void Sequence::KeepAgain(const Pass& pass) const {
  ForwardUntil(end_again(), pass, [](size_t) {});
}

uint64_t Sequence::StageDeferredBytes(int stage, uint64_t examples, DType dtype,
                                      bool wanted) const {
  const Layer& layer = *stages_[stage].layer;
  return (DefersGradient(stage) ? OutputBytes(stage, examples, dtype) : 0) +
         Aligned(layer.DeferredBytes(examples, dtype,
                                     wanted || Before(stage) >= 0));
}

uint64_t Sequence::DeferredBytes(uint64_t examples, DType dtype,
                                 bool wanted) const {
  uint64_t bytes = 0;
  for (int i = 0; i < count(); ++i) {
    bytes += StageDeferredBytes(i, examples, dtype, wanted);
  }
  return bytes;
}

void Sequence::BackwardWith(Part part, const BackwardPass& pass,
                            Written written) const {
  const Context& context = *pass.context;
  const bool in_halves = part != Part::kWhole;
  const auto deferred_bytes = [&](int i) {
    return in_halves ? StageDeferredBytes(i, context.examples, context.dtype,
                                          pass.input_gradient.data != nullptr)
                     : 0;
  };
  const uint64_t bytes = GradientBytes(context.examples, context.dtype);
  std::byte* kept = pass.kept + KeptBytes(context.examples, context.dtype);
  std::byte* deferred = pass.deferred;
  for (int i = 0; i < count(); ++i) deferred += deferred_bytes(i);
  const void* gradient = pass.output_gradient.data;
  std::byte* next = pass.scratch;
  for (int i = last_; i >= 0; i = Before(i)) {
    if (context.IsAbandoned()) return;
    const Stage& stage = stages_[i];
    const Layer& layer = *stage.layer;
    kept -= StageBytes(i, context.examples, context.dtype);
    deferred -= deferred_bytes(i);
    const int before = Before(i);
    void* input_gradient = next;
    if (before < 0) {
      input_gradient = pass.input_gradient.data;
    } else if (in_halves && DefersGradient(before)) {
      input_gradient = deferred - deferred_bytes(before);
    }
    BackwardPass inner;
    static_cast<Pass&>(inner) = Enter(i, pass, kept);
    inner.output_gradient =
        ConstTensor(gradient, context.dtype, inner.output.dims);
    inner.gradients =
        pass.gradients.subspan(stage.first_variable, layer.variables().size());
    inner.input_gradient = {input_gradient, context.dtype, inner.input.dims};
    inner.deferred =
        in_halves && DefersGradient(i)
            ? deferred + OutputBytes(i, context.examples, context.dtype)
            : deferred;
    layer.BackwardPart(part, inner);
    if (context.IsAbandoned()) return;
    if (part != Part::kInput) {
      for (size_t v = layer.variables().size(); v-- > 0;) {
        written(stage.first_variable + v);
      }
    }
    gradient = input_gradient;
    next = next == pass.scratch ? pass.scratch + bytes : pass.scratch;
  }
  if (last_ < 0 && part != Part::kVariables &&
      pass.input_gradient.data != nullptr) {
    context.device->Copy(pass.output_gradient.data,
                         pass.output_gradient.size() * SizeOf(context.dtype),
                         pass.input_gradient.data);
  }
}

uint64_t Sequence::FlopsUntil(int end) const {
  uint64_t sum = 0;
  for (int i = 0; i < end; ++i) {
    const Layer& layer = *stages_[i].layer;
    if (!layer.is_view()) sum += layer.flops();
  }
  return sum;
}

void Sequence::AddCost(int depth, std::vector<LayerCost>* costs) const {
  for (const Stage& stage : stages_) stage.layer->AddCost(depth, costs);
}

}  // namespace paramd
