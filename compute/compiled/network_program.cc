#include "compute/compiled/network_program.h"

#include <utility>

#include "base/status_macros.h"
#include "compute/compiled/emit_layers.h"
#include "compute/compiled/emit_loss.h"
#include "compute/hlo/hlo_ops.h"

namespace paramd {
namespace {

HloType TypeOf(const FeatureSpec& feature, uint64_t examples) {
  return {
      feature.dtype == DType::kFloat32 ? HloElement::kF32 : HloElement::kS32,
      Batched(examples, feature.dims)};
}

HloType TypeOf(const v1::Variable& variable, uint64_t rows) {
  Dims dims(variable.shape().begin(), variable.shape().end());
  if (variable.sparse() && rows > 0) dims[0] = rows;
  return {HloElement::kF32, std::move(dims)};
}

// Integers come as embeddings look them up, keys as places among rows.
void SetInputs(const NetworkPlan& plan, uint64_t examples, Emission* emission,
               ProgramPass* pass) {
  HloGraph* const graph = emission->graph;
  std::vector<HloValue> parameters;
  for (const NetworkPlan::Input& input : plan.inputs) {
    const HloType type = TypeOf(input.feature, examples);
    if (input.looked_up == 0) {
      parameters.push_back(graph->Parameter(type));
      emission->inputs.push_back(parameters.back());
      continue;
    }
    parameters.push_back(
        graph->Parameter({HloElement::kS32, {examples * input.looked_up}}));
    emission->inputs.push_back(hlo::Filled(graph, type, 0));
  }
  for (const NetworkPlan::Lookup& lookup : plan.lookups) {
    emission->integers.push_back(parameters[lookup.input]);
  }
  emission->starts = plan.starts;
  pass->input = emission->inputs.front();
}

// What a task compares with; weights if examples have some.
struct EmittedTarget {
  HloValue label;
  HloValue weights;
};

// The derivative of what all tasks lose, by the outputs.
HloValue LossGradient(const NetworkPlan& plan, HloValue outputs,
                      const std::vector<EmittedTarget>& targets,
                      HloValue scale) {
  if (plan.IsOfOneTask()) {
    return EmitGradient(*plan.tasks.front().loss, outputs,
                        targets.front().label, scale, targets.front().weights);
  }
  const uint64_t examples = outputs.dims()[0];
  const HloValue all =
      hlo::Reshape(outputs, {examples, SizeOf(outputs.dims()) / examples});
  std::vector<HloValue> parts;
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    const HloValue part =
        hlo::Slice(all, 1, task.first, task.first + task.columns());
    const HloValue gradient = EmitGradient(
        *task.loss, hlo::Reshape(part, Batched(examples, task.dims)),
        targets[t].label, hlo::Scale(scale, task.factor), targets[t].weights);
    parts.push_back(hlo::Reshape(gradient, {examples, task.columns()}));
  }
  return hlo::Reshape(hlo::Concatenate(parts, 1), outputs.dims());
}

// Of each variable what is pushed. An untrained one's uses add up, as others
// do.
std::vector<HloValue> GradientsOf(const NetworkPlan& plan, HloValue outputs,
                                  HloValue gradient,
                                  absl::Span<const HloValue> variables,
                                  absl::Span<const HloValue> updates) {
  std::vector<HloValue> gradients =
      outputs.graph->Gradients(outputs, gradient, variables);
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!plan.variables[v].untrained()) continue;
    gradients[v] = HloValue();
    for (size_t use = 0; use < plan.shared.size(); ++use) {
      if (plan.shared[use] != v) continue;
      gradients[v] = gradients[v].exists()
                         ? hlo::Add(gradients[v], updates[use])
                         : updates[use];
    }
  }
  return gradients;
}

}  // namespace

absl::StatusOr<NetworkProgram> WriteProgram(const NetworkPlan& plan,
                                            const ProgramShape& shape,
                                            HloElement operands) {
  const uint64_t examples = shape.examples;
  HloGraph graph;
  graph.set_operands(operands);
  std::vector<HloValue> variables;
  for (const v1::Variable& variable : plan.variables) {
    variables.push_back(graph.Parameter(TypeOf(variable, shape.rows)));
  }
  Emission emission;
  emission.graph = &graph;
  emission.training = shape.training;
  ProgramPass pass;
  SetInputs(plan, examples, &emission, &pass);
  std::vector<EmittedTarget> targets;
  HloValue scale;
  if (shape.training) {
    for (const Task& task : plan.tasks) {
      EmittedTarget& target = targets.emplace_back();
      target.label = graph.Parameter(TypeOf(task.label, examples));
      if (task.weight.name.empty()) continue;
      target.weights = graph.Parameter({HloElement::kF32, {examples}});
    }
    scale = graph.Parameter({HloElement::kF32, {}});
    emission.share = graph.Parameter({HloElement::kF32, {}});
    emission.offsets = graph.Parameter({HloElement::kU64, {examples}});
  }
  std::vector<HloValue> weights;
  for (const size_t variable : plan.shared) {
    weights.push_back(variables[variable]);
  }
  std::vector<HloValue> updates(weights.size());
  pass.emission = &emission;
  pass.weights = weights;
  pass.updates = absl::MakeSpan(updates);
  ASSIGN_OR_RETURN(const HloValue outputs, EmitLayer(*plan.layers, pass));

  std::vector<HloValue> results = {outputs};
  if (shape.training) {
    const HloValue gradient = LossGradient(plan, outputs, targets, scale);
    const std::vector<HloValue> gradients =
        GradientsOf(plan, outputs, gradient, variables, updates);
    results.insert(results.end(), gradients.rbegin(), gradients.rend());
  }
  NetworkProgram program;
  program.text = graph.Text(results);
  program.parameters = graph.parameters();
  for (const HloValue result : results) {
    program.results.push_back(result.type());
  }
  for (const Emission::Draw& draw : emission.draws) {
    program.draws.push_back(draw.layer);
  }
  return program;
}

}  // namespace paramd
