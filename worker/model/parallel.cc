#include "worker/model/parallel.h"

#include <algorithm>
#include <utility>

#include "worker/hlo/hlo_ops.h"

namespace paramd {
namespace {

Dims OutputOf(const std::vector<std::unique_ptr<Sequence>>& branches,
              bool sum) {
  if (sum) return branches.front()->output_dims();
  uint64_t values = 0;
  for (const auto& branch : branches) values += branch->output_size();
  return {values};
}

}  // namespace

Parallel::Parallel(std::string name,
                   std::vector<std::unique_ptr<Sequence>> branches, bool sum)
    : Layer(std::move(name), branches.front()->input_dims(),
            OutputOf(branches, sum)),
      sum_(sum) {
  uint64_t column = 0;
  for (std::unique_ptr<Sequence>& layers : branches) {
    Branch& branch = branches_.emplace_back();
    branch.first_variable = variables_.size();
    branch.first_column = column;
    column += layers->output_size();
    variables_.insert(variables_.end(), layers->variables().begin(),
                      layers->variables().end());
    branch.layers = std::move(layers);
  }
}

uint64_t Parallel::KeptBytes(uint64_t examples, DType dtype) const {
  Arena arena(nullptr);
  for (const Branch& branch : branches_) {
    arena.Take(dtype, Batched(examples, branch.layers->output_dims()));
    arena.TakeBytes(branch.layers->KeptBytes(examples, dtype));
  }
  return arena.used();
}

uint64_t Parallel::ScratchBytes(uint64_t examples, DType dtype) const {
  Arena arena(nullptr);
  uint64_t output = 0;
  uint64_t inner = 0;
  for (const Branch& branch : branches_) {
    output = std::max(output, branch.layers->output_size());
    inner = std::max(inner, branch.layers->ScratchBytes(examples, dtype));
  }
  arena.Take(dtype, {examples, output});
  arena.Take(dtype, Batched(examples, input_dims()));
  return arena.used() + inner;
}

Layer::Pass Parallel::Enter(const Branch& branch, const Pass& pass,
                            Arena* kept) const {
  const Context& context = *pass.context;
  const Sequence& layers = *branch.layers;
  Pass inner = pass;
  inner.weights =
      pass.weights.subspan(branch.first_variable, layers.variables().size());
  inner.output = kept->Take(context.dtype,
                            Batched(context.examples, layers.output_dims()));
  inner.kept =
      kept->TakeBytes(layers.KeptBytes(context.examples, context.dtype));
  return inner;
}

void Parallel::Forward(const Pass& pass) const {
  Device& device = *pass.context->device;
  Arena kept(pass.kept);
  for (const Branch& branch : branches_) {
    const Pass inner = Enter(branch, pass, &kept);
    branch.layers->Forward(inner);
    if (!sum_) {
      device.CopyColumns(inner.output, 0, branch.layers->output_size(),
                         pass.output, branch.first_column);
    } else if (&branch == &branches_.front()) {
      device.Copy(inner.output.data,
                  inner.output.size() * SizeOf(inner.output.dtype),
                  pass.output.data);
    } else {
      device.Add(pass.output, 1, inner.output, pass.output);
    }
  }
}

void Parallel::Backward(const BackwardPass& pass) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  uint64_t widest = 0;
  for (const Branch& branch : branches_) {
    widest = std::max(widest, branch.layers->output_size());
  }
  Arena scratch(pass.scratch);
  Tensor part = scratch.Take(context.dtype, {context.examples, widest});
  const Tensor input_part =
      scratch.Take(context.dtype, Batched(context.examples, input_dims()));
  const bool wanted = pass.input_gradient.data != nullptr;
  Arena kept(pass.kept);
  for (const Branch& branch : branches_) {
    const bool first = &branch == &branches_.front();
    BackwardPass inner = pass;
    static_cast<Pass&>(inner) = Enter(branch, pass, &kept);
    inner.scratch = pass.scratch + scratch.used();
    inner.gradients = pass.gradients.subspan(branch.first_variable,
                                             branch.layers->variables().size());
    if (!sum_) {
      part.dims = inner.output.dims;
      device.CopyColumns(pass.output_gradient, branch.first_column,
                         branch.layers->output_size(), part, 0);
      inner.output_gradient = part;
    }
    if (wanted && !first) inner.input_gradient.data = input_part.data;
    branch.layers->Backward(inner);
    if (wanted && !first) {
      device.Add(pass.input_gradient, 1, input_part, pass.input_gradient);
    }
  }
}

uint64_t Parallel::flops() const {
  uint64_t sum = 0;
  for (const Branch& branch : branches_) sum += branch.layers->flops();
  return sum_ ? sum + (branches_.size() - 1) * output_size() : sum;
}

void Parallel::AddCost(int depth, std::vector<LayerCost>* costs) const {
  Layer::AddCost(depth, costs);
  for (const Branch& branch : branches_) {
    branch.layers->AddCost(depth + 1, costs);
  }
}

HloValue Parallel::Emit(const ProgramPass& pass) const {
  const uint64_t examples = pass.input.dims()[0];
  std::vector<HloValue> outputs;
  for (const Branch& branch : branches_) {
    ProgramPass inner = pass;
    const size_t variables = branch.layers->variables().size();
    inner.weights = pass.weights.subspan(branch.first_variable, variables);
    inner.updates = pass.updates.subspan(branch.first_variable, variables);
    outputs.push_back(branch.layers->Emit(inner));
    if (sum_) continue;
    outputs.back() =
        hlo::Reshape(outputs.back(), {examples, branch.layers->output_size()});
  }
  if (!sum_) return hlo::Concatenate(outputs, 1);
  HloValue sum = outputs.front();
  for (size_t i = 1; i < outputs.size(); ++i) sum = hlo::Add(sum, outputs[i]);
  return sum;
}

}  // namespace paramd
