#include "compute/program/program_model.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tensor/shape.h"

namespace paramd {
namespace {

uint64_t ElementsOf(const v1::Variable& variable) {
  uint64_t elements = 1;
  for (const uint64_t dimension : variable.shape()) elements *= dimension;
  return elements;
}

absl::Status CheckLentWeights(const ProgramModel::Options& options) {
  struct Memory {
    uintptr_t begin, end;
    size_t variable;
  };
  std::vector<Memory> memory;
  for (size_t v = 0; v < options.lent_weights.size(); ++v) {
    const auto& lent = options.lent_weights[v];
    if ((lent[0] == nullptr) != (lent[1] == nullptr)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", options.variables[v].name(),
          "': lend memory for both copies of its weights, or none"));
    }
    if (lent[0] == nullptr) continue;
    const uint64_t size = ElementsOf(options.variables[v]) * sizeof(float);
    for (const float* const copy : lent) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(copy);
      memory.push_back({begin, begin + size, v});
    }
  }
  std::sort(memory.begin(), memory.end(),
            [](const Memory& a, const Memory& b) { return a.begin < b.begin; });
  for (size_t m = 1; m < memory.size(); ++m) {
    if (memory[m - 1].end <= memory[m].begin) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", options.variables[memory[m].variable].name(),
        "': the memory that is lent for its weights overlaps that of '",
        options.variables[memory[m - 1].variable].name(),
        "'; lend each copy memory of its own"));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const int64_t>> IndicesOf(const Batch& batch) {
  const Column* const column = batch.Find("index");
  if (column == nullptr || column->spec().dtype != DType::kInt64) {
    return absl::InvalidArgumentError(
        "a program's own model is told numbers of examples: its input is "
        "{\"train\": \"indices\"}");
  }
  return column->values<int64_t>();
}

}  // namespace

absl::Status ProgramModel::Check(const Options& options) {
  std::set<std::string> names;
  for (const v1::Variable& variable : options.variables) {
    if (variable.name().empty()) {
      return absl::InvalidArgumentError("a variable has no name");
    }
    if (!names.insert(variable.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two variables have the name '", variable.name(), "'"));
    }
    if (ElementsOf(variable) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name(), "' has no elements"));
    }
    if (!variable.sparse()) continue;
    const absl::Status fits = CheckSparseShape(variable.shape());
    if (!fits.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name(), "': ", fits.message()));
    }
    if (variable.untrained()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", variable.name(), "' is sparse and not trained"));
    }
  }
  if (names.empty()) {
    return absl::InvalidArgumentError("the model has no variables");
  }
  const absl::Status lent = CheckLentWeights(options);
  if (!lent.ok()) return lent;
  if (options.initial_values.empty()) return absl::OkStatus();
  for (size_t v = 0; v < options.variables.size(); ++v) {
    const uint64_t wanted = ElementsOf(options.variables[v]);
    const uint64_t found = v < options.initial_values.size()
                               ? options.initial_values[v].size()
                               : 0;
    if (found == wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", options.variables[v].name(), "' has ", wanted,
        " elements; ", found, " initial values were given"));
  }
  return absl::OkStatus();
}

std::unique_ptr<TrainedModel> ProgramModel::Clone() const {
  return std::make_unique<ProgramModel>(&options_, &exchange_);
}

absl::StatusOr<Metrics> ProgramModel::Step(WeightSpans weights,
                                           const Batch& batch,
                                           const StepOptions& options,
                                           GradientSpans gradients,
                                           Ready ready) {
  ProgramWork work;
  auto indices = IndicesOf(batch);
  if (!indices.ok()) return indices.status();
  work.kind = ProgramWork::Kind::kStep;
  work.range = batch.range;
  work.indices = *indices;
  work.weights = weights;
  work.gradients = gradients;
  work.rows = options.rows;
  work.divisor = options.divisor;
  work.ready = &ready;
  work.take = options.take;
  return Compute(work);
}

absl::StatusOr<Metrics> ProgramModel::Compute(const ProgramWork& work) {
  absl::StatusOr<Metrics> metrics = exchange_.Do(work);
  if (metrics.ok() && metrics->labels > 0) {
    metrics->sums.push_back({.kind = Metrics::Kind::kAccuracy});
  }
  return metrics;
}

absl::Status ProgramModel::FindRows(
    const Batch& batch, absl::Span<std::vector<uint64_t>> rows) const {
  return Find(ProgramWork::Kind::kFindRows, batch, rows);
}

absl::Status ProgramModel::FindTestRows(
    const Batch& batch, absl::Span<std::vector<uint64_t>> rows) const {
  return Find(ProgramWork::Kind::kFindTestRows, batch, rows);
}

absl::Status ProgramModel::Find(ProgramWork::Kind kind, const Batch& batch,
                                absl::Span<std::vector<uint64_t>> rows) const {
  if (rows.empty()) return absl::OkStatus();
  ProgramWork work;
  const auto indices = IndicesOf(batch);
  if (!indices.ok()) return indices.status();
  work.kind = kind;
  work.range = batch.range;
  work.indices = *indices;
  work.found = rows;
  return exchange_.Do(work).status();
}

absl::StatusOr<Metrics> ProgramModel::Evaluate(WeightSpans weights,
                                               const Batch& batch) {
  return EvaluateRows(weights, batch, {});
}

absl::StatusOr<Metrics> ProgramModel::EvaluateRows(WeightSpans weights,
                                                   const Batch& batch,
                                                   RowNumbers rows) {
  ProgramWork work;
  auto indices = IndicesOf(batch);
  if (!indices.ok()) return indices.status();
  work.kind = ProgramWork::Kind::kEvaluate;
  work.range = batch.range;
  work.indices = *indices;
  work.weights = weights;
  work.rows = rows;
  return Compute(work);
}

absl::Status ProgramModel::Predict(WeightSpans /*weights*/,
                                   const Batch& /*batch*/, Batch* /*out*/) {
  return absl::UnimplementedError(
      "a program's own model predicts in the program");
}

ModelCost ProgramModel::cost() const {
  ModelCost cost;
  for (const v1::Variable& variable : options_.variables) {
    cost.parameters += ElementsOf(variable);
  }
  return cost;
}

void ProgramModel::Announce(const Batch& batch) {
  const auto indices = IndicesOf(batch);
  if (indices.ok()) exchange_.Announce(*indices);
}

const std::vector<std::vector<float>>* ProgramModel::initial_values() const {
  return options_.initial_values.empty() ? nullptr : &options_.initial_values;
}

}  // namespace paramd
