#include "compute/model/network_batch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "compute/model/layer.h"
#include "compute/model/slices.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// Calls `use` with each integer that is looked up, of all examples, as
// RowNumbers have it; with none for padding.
template <typename Use>
void ForEachRow(const ConstTensor& input, const NetworkPlan::Lookup& lookup,
                Use use) {
  const uint64_t examples = input.dims[0];
  const uint64_t size = input.size() / examples;
  const auto each = [&](auto values, auto row_of) {
    for (uint64_t i = lookup.first; i < values.size(); i += size) {
      for (const auto value : values.subspan(i, lookup.count)) {
        if (lookup.padding && value == -1) {
          use(absl::optional<uint64_t>());
        } else {
          use(absl::optional<uint64_t>(row_of(value)));
        }
      }
    }
  };
  if (input.dtype == DType::kInt64) {
    each(input.values<int64_t>(),
         [](int64_t key) { return MixKey(static_cast<uint64_t>(key)); });
  } else {
    each(input.values<int32_t>(),
         [](int32_t row) { return static_cast<uint64_t>(row); });
  }
}

// Of each example; empty if they have none. REQUIRES: as CheckExampleWeights.
Loss::Weights WeightsOf(const Task& task, const Batch& batch) {
  if (task.weight.name.empty()) return {};
  return batch.Find(task.weight.name)->values<float>();
}

// The same of the probabilities of their items.
absl::Span<const float> ProbabilitiesOf(const Task& task, const Batch& batch) {
  if (task.probability.name.empty()) return {};
  return batch.Find(task.probability.name)->values<float>();
}

// Whether -1 at this place of an example is no row for all who look it up.
bool MayBePadding(const NetworkPlan& plan, size_t input, uint64_t place) {
  return std::all_of(plan.lookups.begin(), plan.lookups.end(),
                     [&](const NetworkPlan::Lookup& one) {
                       return one.input != input || one.padding ||
                              place < one.first ||
                              place >= one.first + one.count;
                     });
}

// REQUIRES: the batch has the feature.
absl::Status CheckIndices(const NetworkPlan& plan, size_t input,
                          const Batch& batch) {
  const auto& [feature, bound, looked_up] = plan.inputs[input];
  if (bound == 0) return absl::OkStatus();
  const auto indices = batch.Find(feature.name)->values<int32_t>();
  const uint64_t size = feature.size();
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= 0 && static_cast<uint64_t>(indices[i]) < bound) continue;
    if (indices[i] == -1 && MayBePadding(plan, input, i % size)) continue;
    return absl::DataLossError(absl::StrCat(
        batch.Where(i / size), ": the feature '", feature.name, "' has ",
        indices[i], "; it must be from 0 to ", bound - 1,
        indices[i] == -1
            ? ", or the embedding that reads it have \"padding\""
            : ", or the embedding that reads it have more \"rows\""));
  }
  return absl::OkStatus();
}

// Whether the weights of examples are numbers from 0 on. REQUIRES: the batch
// has the feature, if there is one.
absl::Status CheckExampleWeights(const Task& task, const Batch& batch) {
  const auto weights = WeightsOf(task, batch);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= 0 && std::isfinite(weights[i])) continue;
    return absl::DataLossError(absl::StrCat(
        batch.Where(i), ": the weight '", task.weight.name, "' is ", weights[i],
        "; it must be a finite number from 0 on"));
  }
  return absl::OkStatus();
}

// Whether the probabilities of items have logarithms. REQUIRES: the batch has
// the feature, if there is one.
absl::Status CheckProbabilities(const Task& task, const Batch& batch) {
  const auto probabilities = ProbabilitiesOf(task, batch);
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] > 0 && std::isfinite(probabilities[i])) continue;
    return absl::DataLossError(absl::StrCat(
        batch.Where(i), ": the sampling probability '", task.probability.name,
        "' is ", probabilities[i], "; it must be a finite number above 0"));
  }
  return absl::OkStatus();
}

// Whether the batch has what all tasks compare with.
absl::Status FindTargets(const NetworkPlan& plan, const Batch& batch) {
  for (const Task& task : plan.tasks) {
    RETURN_IF_ERROR(FindColumn(task.label, batch).status());
    for (const FeatureSpec* beside : {&task.weight, &task.probability}) {
      if (beside->name.empty()) continue;
      RETURN_IF_ERROR(FindColumn(*beside, batch).status());
    }
  }
  return absl::OkStatus();
}

// A task's part of outputs in host memory; `memory` holds it.
ConstTensor PartOf(const Task& task, const ConstTensor& outputs,
                   std::vector<std::byte>* memory) {
  const uint64_t examples = outputs.dims[0];
  const uint64_t all = outputs.size() / examples;
  const uint64_t size = SizeOf(outputs.dtype);
  memory->resize(examples * task.columns() * size);
  const auto* const from = static_cast<const std::byte*>(outputs.data);
  for (uint64_t i = 0; i < examples; ++i) {
    std::memcpy(memory->data() + i * task.columns() * size,
                from + (i * all + task.first) * size, task.columns() * size);
  }
  return {memory->data(), outputs.dtype, Batched(examples, task.dims)};
}

absl::StatusOr<Metrics> CountTask(const Task& task, const ConstTensor& outputs,
                                  const Batch& batch, bool scored) {
  absl::Span<const int64_t> groups;
  if (scored && !task.group.name.empty()) {
    ASSIGN_OR_RETURN(const Column* const group, FindColumn(task.group, batch));
    groups = group->values<int64_t>();
  }
  return task.loss->Compute(outputs, batch.Find(task.label.name)->tensor(), 1,
                            Tensor(), scored, groups, WeightsOf(task, batch));
}

absl::StatusOr<Metrics> CountTasks(const NetworkPlan& plan,
                                   const ConstTensor& outputs,
                                   const Batch& batch, bool scored) {
  if (plan.IsOfOneTask()) {
    return CountTask(plan.tasks.front(), outputs, batch, scored);
  }
  std::vector<Metrics> of_tasks;
  std::vector<std::byte> memory;
  for (const Task& task : plan.tasks) {
    ASSIGN_OR_RETURN(
        of_tasks.emplace_back(),
        CountTask(task, PartOf(task, outputs, &memory), batch, scored));
  }
  return plan.Together(std::move(of_tasks), TargetsOf(plan, batch));
}

}  // namespace

absl::StatusOr<const Column*> FindColumn(const FeatureSpec& wanted,
                                         const Batch& batch) {
  const Column* column = batch.Find(wanted.name);
  // How many classes it states is no matter: values are checked one by one.
  if (column != nullptr && column->spec().dtype == wanted.dtype &&
      column->spec().dims == wanted.dims && !column->spec().ragged) {
    return column;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a batch lacks the feature '", wanted.name, "' of ",
                   NameOf(wanted.dtype), " that the model was made for"));
}

absl::Status CheckBatch(const NetworkPlan& plan, const Batch& batch,
                        bool labels) {
  for (const NetworkPlan::Input& input : plan.inputs) {
    RETURN_IF_ERROR(FindColumn(input.feature, batch).status());
  }
  if (labels) RETURN_IF_ERROR(FindTargets(plan, batch));
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    RETURN_IF_ERROR(CheckIndices(plan, i, batch));
  }
  if (!labels) return absl::OkStatus();
  for (const Task& task : plan.tasks) {
    RETURN_IF_ERROR(CheckExampleWeights(task, batch));
    RETURN_IF_ERROR(CheckProbabilities(task, batch));
    absl::Status checked =
        task.loss->Check(batch.Find(task.label.name)->tensor(),
                         [&](uint64_t i) { return batch.Where(i); });
    if (checked.ok() || task.name.empty()) {
      RETURN_IF_ERROR(checked);
      continue;
    }
    return absl::Status(checked.code(), absl::StrCat("the output '", task.name,
                                                     "': ", checked.message()));
  }
  return absl::OkStatus();
}

Targets TargetsOf(const NetworkPlan& plan, const Batch& batch) {
  Targets targets;
  for (const Task& task : plan.tasks) {
    Loss::Target& target = targets.emplace_back();
    target.labels = batch.Find(task.label.name)->tensor();
    target.weights = WeightsOf(task, batch);
    target.probabilities = ProbabilitiesOf(task, batch);
  }
  return targets;
}

uint64_t CountedExamples(const NetworkPlan& plan, const Batch& batch) {
  if (batch.size() == 0) return 0;
  if (!FindTargets(plan, batch).ok()) return batch.size();
  return plan.CountedExamples(TargetsOf(plan, batch));
}

absl::Status FindRows(const NetworkPlan& plan, const Batch& batch,
                      absl::Span<std::vector<uint64_t>> rows) {
  if (rows.empty() || batch.size() == 0) return absl::OkStatus();
  const bool is_labelled = FindTargets(plan, batch).ok();
  RETURN_IF_ERROR(CheckBatch(plan, batch, is_labelled));
  for (size_t i = 0; i < plan.lookups.size(); ++i) {
    const NetworkPlan::Lookup& lookup = plan.lookups[i];
    const std::string& name = plan.inputs[lookup.input].feature.name;
    const ConstTensor input = batch.Find(name)->tensor();
    if (!plan.variables[lookup.table].sparse()) continue;
    // Another embedding of the same table has looked up the same.
    const auto first = plan.lookups.begin();
    if (std::any_of(first, first + i, [&](const NetworkPlan::Lookup& one) {
          return one.table == lookup.table && one.IsOfSame(lookup);
        })) {
      continue;
    }
    std::vector<uint64_t>& some = rows[plan.sparse_before[lookup.table]];
    ForEachRow(input, lookup, [&](absl::optional<uint64_t> row) {
      if (row.has_value()) some.push_back(*row);
    });
  }
  return absl::OkStatus();
}

ConstTensor InputOf(const NetworkPlan& plan, size_t input, const Batch& batch,
                    RowNumbers rows, std::vector<int32_t>* places) {
  const FeatureSpec& feature = plan.inputs[input].feature;
  const ConstTensor values = batch.Find(feature.name)->tensor();
  if (plan.inputs[input].looked_up == 0) return values;
  CHECK(!(rows.empty() && feature.dtype == DType::kInt64),
        "rows of keyed variables are handed in");
  if (rows.empty() && plan.TakesAsItIs(input)) return values;
  places->clear();
  for (size_t i = 0; i < plan.lookups.size(); ++i) {
    const NetworkPlan::Lookup& lookup = plan.lookups[i];
    if (lookup.input != input ||
        plan.starts[i] * batch.size() < places->size()) {
      continue;
    }
    const bool are_rows =
        !rows.empty() && plan.variables[lookup.table].sparse();
    const auto handed_in = are_rows ? rows[plan.sparse_before[lookup.table]]
                                    : absl::Span<const uint64_t>();
    ForEachRow(values, lookup, [&](absl::optional<uint64_t> row) {
      if (!row.has_value() || !are_rows) {
        places->push_back(static_cast<int32_t>(row.value_or(-1)));
        return;
      }
      const auto found =
          std::lower_bound(handed_in.begin(), handed_in.end(), *row);
      CHECK(found != handed_in.end() && *found == *row,
            "what the batch reads is among the rows that are handed in");
      places->push_back(static_cast<int32_t>(found - handed_in.begin()));
    });
  }
  return {places->data(), DType::kInt32, {places->size()}};
}

absl::StatusOr<Metrics> CountMetrics(const NetworkPlan& plan,
                                     const ConstTensor& outputs,
                                     const Batch& batch, bool scored) {
  ASSIGN_OR_RETURN(Metrics metrics, CountTasks(plan, outputs, batch, scored));
  if (!scored || plan.slices.empty()) return metrics;
  const auto count = [&](const SlicedBatch& slice) -> absl::Status {
    ASSIGN_OR_RETURN(Metrics counted, CountTasks(plan, slice.outputs,
                                                 slice.batch, /*scored=*/true));
    counted.feature = slice.feature;
    counted.value = slice.value;
    counted.DropBuckets();
    metrics.slices.push_back(std::move(counted));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(
      ForEachSlice(plan.slices, plan.Measured(), outputs, batch, count));
  return metrics;
}

void LayOutPrediction(const NetworkPlan& plan, const Batch& batch, Batch* out) {
  InputSpec spec;
  for (const Task& task : plan.tasks) {
    spec.features.push_back({task.name.empty() ? "prediction" : task.name,
                             DType::kFloat32, task.prediction_dims()});
  }
  out->Reset(spec, batch.size());
  out->range = batch.range;
}

void WritePrediction(const NetworkPlan& plan, const ConstTensor& outputs,
                     Batch* out) {
  if (plan.IsOfOneTask()) {
    plan.tasks.front().loss->Predict(outputs, out->columns.front().tensor(),
                                     plan.temperature);
    return;
  }
  std::vector<std::byte> memory;
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    task.loss->Predict(PartOf(task, outputs, &memory), out->columns[t].tensor(),
                       plan.temperature);
  }
}

}  // namespace paramd
