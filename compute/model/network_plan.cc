#include "compute/model/network_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {

absl::Status CheckTestData(const NetworkPlan& plan, const InputSpec& test) {
  for (const NetworkPlan::Input& one : plan.inputs) {
    const FeatureSpec* const input = test.Find(one.feature.name);
    if (input == nullptr || one.bound == 0 || input->classes / 2 < one.bound) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the test data have integers of '", input->name, "' from ",
        input->classes / 2, " on; the embedding that reads them has ",
        one.bound, " rows: give it \"rows\", at least ", input->classes));
  }
  return absl::OkStatus();
}

bool NetworkPlan::TakesAsItIs(size_t input) const {
  const Input& one = inputs[input];
  if (one.looked_up == 0) return true;
  const auto first =
      std::find_if(lookups.begin(), lookups.end(),
                   [&](const Lookup& lookup) { return lookup.input == input; });
  return one.feature.dtype == DType::kInt32 && first->first == 0 &&
         one.looked_up == one.feature.size() && first->count == one.looked_up;
}

bool NetworkPlan::TakesAllAsTheyAre() const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!TakesAsItIs(i)) return false;
  }
  return true;
}

bool NetworkPlan::IsUsedBefore(size_t use) const {
  const auto end = shared.begin() + use;
  return std::find(shared.begin(), end, *end) != end;
}

bool NetworkPlan::IsUsedBehind(size_t use) const {
  const auto place = shared.begin() + use;
  return std::find(place + 1, shared.end(), *place) != shared.end();
}

uint64_t NetworkPlan::InputBytes(size_t input) const {
  const Input& one = inputs[input];
  return one.looked_up == 0 ? one.feature.size() * SizeOf(one.feature.dtype)
                            : one.looked_up * sizeof(int32_t);
}

ModelCost NetworkPlan::cost() const {
  ModelCost cost;
  layers->AddCost(0, &cost.layers);
  uint64_t recomputed = 0;
  for (const LayerCost& layer : cost.layers) {
    recomputed = std::max(recomputed, layer.recomputed_bytes);
    if (layer.depth > 0) continue;
    cost.flops += layer.flops;
    cost.activation_bytes += layer.activation_bytes;
  }
  cost.activation_bytes += recomputed;
  for (const v1::Variable& variable : variables) {
    cost.parameters +=
        SizeOf(Dims(variable.shape().begin(), variable.shape().end()));
  }
  cost.chosen = chosen;
  cost.saved_bytes = saved_bytes;
  return cost;
}

bool NetworkPlan::NeedsScores() const {
  if (!slices.empty()) return true;
  return std::any_of(tasks.begin(), tasks.end(),
                     [](const Task& task) { return task.loss->NeedsScores(); });
}

std::vector<std::string> NetworkPlan::metrics() const {
  if (IsOfOneTask()) return tasks.front().loss->metrics();
  std::vector<std::string> names;
  for (const Task& task : tasks) {
    names.push_back(absl::StrCat(task.name, "/loss"));
    for (const std::string& metric : task.loss->metrics()) {
      names.push_back(absl::StrCat(task.name, "/", metric));
    }
  }
  return names;
}

std::vector<std::string> NetworkPlan::Measured() const {
  std::vector<std::string> names;
  for (const Task& task : tasks) {
    for (const FeatureSpec* const one :
         {&task.label, &task.group, &task.weight, &task.probability}) {
      if (one->name.empty()) continue;
      if (std::find(names.begin(), names.end(), one->name) == names.end()) {
        names.push_back(one->name);
      }
    }
  }
  return names;
}

uint64_t NetworkPlan::CountedExamples(
    absl::Span<const Loss::Target> targets) const {
  if (tasks.size() == 1) {
    return tasks.front().loss->CountedExamples(targets.front().labels);
  }
  const uint64_t examples = targets.front().labels.dims[0];
  uint64_t counted = 0;
  for (uint64_t i = 0; i < examples; ++i) {
    bool counts = false;
    for (size_t t = 0; t < tasks.size() && !counts; ++t) {
      counts = tasks[t].loss->Counts(targets[t].labels, i);
    }
    if (counts) ++counted;
  }
  return counted;
}

Metrics NetworkPlan::Together(std::vector<Metrics> of_tasks,
                              absl::Span<const Loss::Target> targets) const {
  Metrics all;
  all.examples = CountedExamples(targets);
  for (size_t t = 0; t < tasks.size(); ++t) {
    of_tasks[t].output = tasks[t].name;
    all.loss_sum += tasks[t].factor * of_tasks[t].loss_sum;
  }
  all.outputs = std::move(of_tasks);
  return all;
}

}  // namespace paramd
