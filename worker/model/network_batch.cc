#include "worker/model/network_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/check.h"
#include "base/status_macros.h"
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

// INVALID_ARGUMENT if the batch has not that feature.
absl::StatusOr<const Column*> FindColumn(const FeatureSpec& wanted,
                                         const Batch& batch) {
  const Column* column = batch.Find(wanted.name);
  // How many classes it states is no matter: values are checked one by one.
  if (column != nullptr && column->spec().dtype == wanted.dtype &&
      column->spec().dims == wanted.dims && !column->spec().ragged) {
    return column;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a batch has not the feature '", wanted.name, "' of ",
                   NameOf(wanted.dtype), " that the model was made for"));
}

// Whether -1 at this place of an example is no row for all who look it up.
bool MayBePadding(const NetworkPlan& plan, uint64_t place) {
  return std::all_of(plan.lookups.begin(), plan.lookups.end(),
                     [&](const NetworkPlan::Lookup& one) {
                       return one.padding || place < one.first ||
                              place >= one.first + one.count;
                     });
}

absl::Status CheckIndices(const NetworkPlan& plan, const Column& input,
                          const Batch& batch) {
  if (plan.input_bound == 0) return absl::OkStatus();
  const auto indices = input.values<int32_t>();
  const uint64_t size = plan.input.size();
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= 0 &&
        static_cast<uint64_t>(indices[i]) < plan.input_bound) {
      continue;
    }
    if (indices[i] == -1 && MayBePadding(plan, i % size)) continue;
    return absl::DataLossError(absl::StrCat(
        batch.Where(i / size), ": the feature '", plan.input.name, "' has ",
        indices[i], "; it must be from 0 to ", plan.input_bound - 1,
        indices[i] == -1
            ? ", or the embedding that reads it have \"padding\""
            : ", or the embedding that reads it have more \"rows\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBatch(const NetworkPlan& plan, const Batch& batch,
                        bool labels) {
  ASSIGN_OR_RETURN(const Column* const input, FindColumn(plan.input, batch));
  if (!labels) return CheckIndices(plan, *input, batch);
  ASSIGN_OR_RETURN(const Column* const label, FindColumn(plan.label, batch));
  RETURN_IF_ERROR(CheckIndices(plan, *input, batch));
  return plan.loss->Check(label->tensor(),
                          [&](uint64_t i) { return batch.Where(i); });
}

uint64_t CountedExamples(const NetworkPlan& plan, const Batch& batch) {
  if (batch.size() == 0) return 0;
  const auto label = FindColumn(plan.label, batch);
  return label.ok() ? plan.loss->CountedExamples((*label)->tensor())
                    : batch.size();
}

absl::Status FindRows(const NetworkPlan& plan, const Batch& batch,
                      absl::Span<std::vector<uint64_t>> rows) {
  if (rows.empty() || batch.size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(
      CheckBatch(plan, batch, batch.Find(plan.label.name) != nullptr));
  const ConstTensor input = batch.Find(plan.input.name)->tensor();
  for (size_t i = 0; i < plan.lookups.size(); ++i) {
    const NetworkPlan::Lookup& lookup = plan.lookups[i];
    if (!plan.variables[lookup.table].sparse()) continue;
    // Another embedding of the same table has looked up the same.
    const auto first = plan.lookups.begin();
    if (std::any_of(first, first + i, [&](const NetworkPlan::Lookup& one) {
          return one.table == lookup.table && one.first == lookup.first &&
                 one.count == lookup.count && one.padding == lookup.padding;
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

ConstTensor InputOf(const NetworkPlan& plan, const Batch& batch,
                    RowNumbers rows, std::vector<int32_t>* places) {
  const ConstTensor input = batch.Find(plan.input.name)->tensor();
  CHECK(!(rows.empty() && plan.has_keys),
        "rows of keyed variables are handed in");
  if (rows.empty() && plan.TakesInputAsItIs()) return input;
  places->clear();
  for (size_t i = 0; i < plan.lookups.size(); ++i) {
    const NetworkPlan::Lookup& lookup = plan.lookups[i];
    if (plan.starts[i] * batch.size() < places->size()) continue;
    const auto handed_in = rows.empty()
                               ? absl::Span<const uint64_t>()
                               : rows[plan.sparse_before[lookup.table]];
    ForEachRow(input, lookup, [&](absl::optional<uint64_t> row) {
      if (!row.has_value() || rows.empty()) {
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
                                     const Batch& batch) {
  absl::Span<const int64_t> groups;
  if (!plan.group.name.empty()) {
    ASSIGN_OR_RETURN(const Column* const group, FindColumn(plan.group, batch));
    groups = group->values<int64_t>();
  }
  return plan.loss->Compute(outputs, batch.Find(plan.label.name)->tensor(), 1,
                            Tensor(), /*scored=*/true, groups);
}

void LayOutPrediction(const NetworkPlan& plan, const Batch& batch, Batch* out) {
  const InputSpec spec{
      {FeatureSpec{"prediction", DType::kFloat32, plan.layers->output_dims()}}};
  out->Reset(spec, batch.size());
  out->range = batch.range;
}

}  // namespace paramd
