#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/chosen_recompute.h"
#include "cli/commands/command.h"
#include "config/batch_rule.h"
#include "config/strategy.h"
#include "input/open_pipeline.h"
#include "process/exit_code.h"
#include "process/job_flags.h"
#include "process/terminal/text_layout.h"
#include "worker/model_factory.h"

namespace paramd {
namespace {

using Row = std::vector<std::string>;

Row RowOf(const std::string& name, const std::string& output,
          uint64_t parameters, uint64_t flops, uint64_t bytes) {
  return {name, output, Grouped(parameters), Grouped(flops), Grouped(bytes)};
}

// Numbers end under each other.
void AlignNumbers(std::vector<Row>* rows) {
  for (size_t column = 2; column < rows->front().size(); ++column) {
    size_t widest = 0;
    for (const Row& row : *rows)
      widest = std::max(widest, Columns(row[column]));
    for (Row& row : *rows) row[column] = AtRight(row[column], widest);
  }
}

std::string Describe(const ModelCost& cost) {
  std::vector<Row> rows = {
      {"layer", "output", "parameters", "operations", "activation bytes"}};
  for (const LayerCost& layer : cost.layers) {
    const std::string indent(static_cast<size_t>(2 * layer.depth), ' ');
    rows.push_back(RowOf(absl::StrCat(indent, layer.name),
                         absl::StrJoin(layer.output, "x"), layer.parameters,
                         layer.flops, layer.activation_bytes));
  }
  rows.push_back(
      RowOf("all", "", cost.parameters, cost.flops, cost.activation_bytes));
  AlignNumbers(&rows);
  return Table(rows) + DescribeChosen(cost.chosen);
}

absl::StatusOr<ModelCost> CostOf(v1::JobConfig job,
                                 const ModelFactory& models) {
  RETURN_IF_ERROR(DeriveBatch(ReplicasOf(job), &job));
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job));
  v1::JobConfig one = WithoutGpu(WithOneReplica(job));
  if (one.memory().activation_budget_bytes() > 0) {
    // What a worker would swap is part of the answer.
    *one.mutable_memory() = job.memory();
  }
  ASSIGN_OR_RETURN(const auto model, models(one, training->spec()));
  return model->cost();
}

}  // namespace

int ModelPrintCommand(const Invocation& invocation) {
  JobFlags job;
  Flags flags(
      "model print", "--job FILE [flags]",
      "Shows the layers of the job's model, in order, and for one "
      "example the shape of\nwhat each gives, its parameters, the "
      "floating-point operations of its forward\npass and the bytes "
      "that it keeps for the backward pass. What a residual layer\n"
      "holds stands indented below it and is in its figures. Parameters "
      "that layers\nshare count once in the last line.\n\n"
      "What a recompute layer holds keeps its bytes only while the "
      "backward pass\ncomputes it again, in memory that all such layers "
      "share: the last line has the\nlargest of them. What is computed "
      "again counts twice among operations.");
  job.AddTo(&flags);
  if (const auto code = ParseFlags(invocation, &flags)) return *code;
  const absl::StatusOr<LoadedJob> loaded = job.Load();
  PrintError(loaded.status());
  if (!loaded.ok()) return kExitBadConfiguration;
  const absl::StatusOr<ModelCost> cost =
      CostOf(loaded->config, invocation.models);
  PrintError(cost.status());
  if (!cost.ok()) return kExitBadConfiguration;
  Print(Describe(*cost));
  return kExitFinished;
}

}  // namespace paramd
