#include "compute/model/parallel.h"

#include <algorithm>
#include <utility>

namespace paramd {
namespace {

Dims OutputOf(const std::vector<Parallel::Branch>& branches, bool sum) {
  if (sum) return branches.front().layers->output_dims();
  uint64_t values = 0;
  for (const auto& branch : branches) values += branch.layers->output_size();
  return {values};
}

}  // namespace

Parallel::Parallel(std::string name, Dims input, std::vector<Branch> branches,
                   bool sum)
    : Layer(std::move(name), std::move(input), OutputOf(branches, sum)),
      sum_(sum) {
  uint64_t column = 0;
  for (Branch& branch : branches) {
    const Sequence& layers = *branch.layers;
    Placed& placed = branches_.emplace_back();
    placed.first_variable = variables_.size();
    placed.first_column = column;
    column += layers.output_size();
    variables_.insert(variables_.end(), layers.variables().begin(),
                      layers.variables().end());
    static_cast<Branch&>(placed) = std::move(branch);
  }
}

bool Parallel::reads_input() const {
  return std::any_of(
      branches_.begin(), branches_.end(),
      [](const Placed& branch) { return !branch.feature.has_value(); });
}

uint64_t Parallel::KeptBytes(uint64_t examples, DType dtype) const {
  Arena arena(nullptr);
  for (const Placed& branch : branches_) {
    arena.Take(dtype, Batched(examples, branch.layers->output_dims()));
    arena.TakeBytes(branch.layers->KeptBytes(examples, dtype));
  }
  return arena.used();
}

uint64_t Parallel::ScratchBytes(uint64_t examples, DType dtype) const {
  Arena arena(nullptr);
  uint64_t output = 0;
  uint64_t inner = 0;
  for (const Placed& branch : branches_) {
    output = std::max(output, branch.layers->output_size());
    inner = std::max(inner, branch.layers->ScratchBytes(examples, dtype));
  }
  arena.Take(dtype, {examples, output});
  arena.Take(dtype, Batched(examples, input_dims()));
  return arena.used() + inner;
}

Layer::Pass Parallel::Enter(const Placed& branch, const Pass& pass,
                            Arena* kept) const {
  const Context& context = *pass.context;
  const Sequence& layers = *branch.layers;
  Pass inner = pass;
  if (branch.feature.has_value()) inner.input = context.inputs[*branch.feature];
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
  for (const Placed& branch : branches_) {
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

uint64_t Parallel::BranchDeferredBytes(const Placed& branch, uint64_t examples,
                                       DType dtype, bool wanted) const {
  return branch.layers->DeferredBytes(examples, dtype,
                                      wanted && !branch.feature.has_value());
}

uint64_t Parallel::DeferredBytes(uint64_t examples, DType dtype,
                                 bool wanted) const {
  Arena arena(nullptr);
  for (const Placed& branch : branches_) {
    if (!sum_) {
      arena.Take(dtype, Batched(examples, branch.layers->output_dims()));
    }
    arena.TakeBytes(BranchDeferredBytes(branch, examples, dtype, wanted));
  }
  return arena.used();
}

void Parallel::BackwardOf(Part part, const BackwardPass& pass) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  uint64_t widest = 0;
  for (const Placed& branch : branches_) {
    widest = std::max(widest, branch.layers->output_size());
  }
  Arena scratch(pass.scratch);
  Tensor columns = scratch.Take(context.dtype, {context.examples, widest});
  const Tensor input_part =
      scratch.Take(context.dtype, Batched(context.examples, input_dims()));
  const bool wanted = pass.input_gradient.data != nullptr;
  const bool writes = wanted && part != Part::kVariables;
  if (writes && !reads_input()) {
    // Over no rows: zeros.
    Tensor zeros = pass.input_gradient;
    zeros.dims = {zeros.size()};
    device.SumRows({nullptr, context.dtype, {0}}, zeros);
  }
  bool first = true;  // Of those that read the input.
  Arena kept(pass.kept);
  Arena deferred(pass.deferred);
  for (const Placed& branch : branches_) {
    const bool adds = wanted && !branch.feature.has_value();
    BackwardPass inner = pass;
    static_cast<Pass&>(inner) = Enter(branch, pass, &kept);
    inner.scratch = pass.scratch + scratch.used();
    inner.gradients = pass.gradients.subspan(branch.first_variable,
                                             branch.layers->variables().size());
    if (!sum_) {
      columns.dims = inner.output.dims;
      if (part != Part::kWhole) {
        columns = deferred.Take(context.dtype, inner.output.dims);
      }
      if (part != Part::kVariables) {
        device.CopyColumns(pass.output_gradient, branch.first_column,
                           branch.layers->output_size(), columns, 0);
      }
      inner.output_gradient = columns;
    }
    if (part != Part::kWhole) {
      inner.deferred = deferred.TakeBytes(
          BranchDeferredBytes(branch, context.examples, context.dtype, wanted));
    }
    if (!adds) inner.input_gradient.data = nullptr;
    if (adds && !first) inner.input_gradient.data = input_part.data;
    branch.layers->BackwardPart(part, inner);
    if (writes && adds && !first) {
      device.Add(pass.input_gradient, 1, input_part, pass.input_gradient);
    }
    if (adds) first = false;
  }
}

uint64_t Parallel::flops() const {
  uint64_t sum = 0;
  for (const Placed& branch : branches_) sum += branch.layers->flops();
  return sum_ ? sum + (branches_.size() - 1) * output_size() : sum;
}

void Parallel::AddCost(int depth, std::vector<LayerCost>* costs) const {
  Layer::AddCost(depth, costs);
  for (const Placed& branch : branches_) {
    branch.layers->AddCost(depth + 1, costs);
  }
}

}  // namespace paramd
