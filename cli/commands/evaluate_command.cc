#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/chosen_model.h"
#include "cli/commands/command.h"
#include "cli/commands/evaluated_parts.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/terminal/text_layout.h"
#include "proto/message_json.h"
#include "worker/evaluation.h"
#include "worker/metric_messages.h"

namespace paramd {
namespace {

using OrderedJson = nlohmann::ordered_json;

// As they were typed.
struct WantedEvaluation {
  ChosenModelFlags chosen;
  bool merge = false;
  bool json = false;
};

// What was evaluated, and what it came to.
struct Evaluated {
  std::string from;       // Path of the checkpoint, or the address.
  std::string step_text;  // "step 9370".
  OrderedJson steps;      // The keys that say the same.
  std::string part;       // "part 0/4"; empty: all of it.
  Metrics metrics;
};

// The probabilities of each output that has a calibration, by bucket.
void PrintBuckets(const Metrics& metrics) {
  v1::Evaluation evaluation;
  AddCalibrationBuckets(metrics, &evaluation);
  for (const auto& of_output : evaluation.calibration_buckets()) {
    const std::string& output = of_output.output();
    std::vector<std::vector<std::string>> rows = {
        {absl::StrCat(output, output.empty() ? "" : " ", "probability"),
         "examples", "predicted", "observed"}};
    for (const auto& bucket : of_output.buckets()) {
      rows.push_back(
          {absl::StrFormat("  %.1f to %.1f", bucket.from(), bucket.to()),
           absl::StrFormat("%.6g", bucket.count()),
           absl::StrFormat("%.6g", bucket.predicted()),
           absl::StrFormat("%.6g", bucket.observed())});
    }
    Print(Table(std::move(rows)));
  }
}

void PrintText(const Evaluated& evaluated) {
  const Metrics& metrics = evaluated.metrics;
  Print(absl::StrCat(EscapeLine(evaluated.from), ", ", evaluated.step_text,
                     ", ", evaluated.part, evaluated.part.empty() ? "" : ", ",
                     metrics.examples, " examples\n"));
  if (metrics.examples == 0) return;
  for (const NamedValue& value : metrics.Values()) {
    Print(absl::StrFormat("  %-12s %.6g\n", value.name, value.value));
  }
  PrintBuckets(metrics);
  for (const Metrics& slice : metrics.slices) {
    Print(absl::StrFormat("%s=%d, %d examples\n", EscapeLine(slice.feature),
                          slice.value, slice.examples));
    for (const NamedValue& value : slice.Values()) {
      Print(absl::StrFormat("  %-12s %.6g\n", value.name, value.value));
    }
  }
}

OrderedJson JsonOf(const Metrics& metrics) {
  OrderedJson values = OrderedJson::object();
  for (const NamedValue& value : metrics.Values()) {
    // JSON has no other numbers.
    values[value.name] = std::isfinite(value.value) ? OrderedJson(value.value)
                                                    : OrderedJson(nullptr);
  }
  return values;
}

// As Evaluation has them in result.json.
OrderedJson BucketsJson(const Metrics& metrics) {
  v1::Evaluation evaluation;
  AddCalibrationBuckets(metrics, &evaluation);
  OrderedJson all = OrderedJson::array();
  for (const auto& of_output : evaluation.calibration_buckets()) {
    OrderedJson one;
    one["output"] = of_output.output();
    one["buckets"] = OrderedJson::array();
    for (const auto& bucket : of_output.buckets()) {
      one["buckets"].push_back({{"from", bucket.from()},
                                {"to", bucket.to()},
                                {"count", bucket.count()},
                                {"predicted", bucket.predicted()},
                                {"observed", bucket.observed()}});
    }
    all.push_back(std::move(one));
  }
  return all;
}

OrderedJson JsonOf(const Evaluated& evaluated) {
  OrderedJson all = evaluated.steps;
  const Metrics& metrics = evaluated.metrics;
  all["examples"] = metrics.examples;
  all["metrics"] =
      metrics.examples > 0 ? JsonOf(metrics) : OrderedJson::object();
  OrderedJson buckets = BucketsJson(metrics);
  if (!buckets.empty()) all["calibration_buckets"] = std::move(buckets);
  for (const Metrics& slice : metrics.slices) {
    OrderedJson one;
    one["feature"] = slice.feature;
    one["value"] = slice.value;
    one["examples"] = slice.examples;
    one["metrics"] = JsonOf(slice);
    all["slices"].push_back(std::move(one));
  }
  return all;
}

void PrintJson(const OrderedJson& json) {
  // In ASCII: a terminal obeys none of it, and paths may be no UTF-8.
  Print(absl::StrCat(
      json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace), "\n"));
}

void PrintEvaluated(const WantedEvaluation& wanted,
                    const Evaluated& evaluated) {
  wanted.json ? PrintJson(JsonOf(evaluated)) : PrintText(evaluated);
}

Evaluated OfCheckpoint(const std::string& path, uint64_t step) {
  Evaluated evaluated;
  evaluated.from = path;
  evaluated.step_text = absl::StrCat("step ", step);
  evaluated.steps["checkpoint"] = path;
  evaluated.steps["step"] = step;
  return evaluated;
}

Evaluated OfChosen(const ChosenModel& chosen) {
  if (!chosen.live) return OfCheckpoint(chosen.from, chosen.least_step);
  Evaluated evaluated;
  evaluated.from = chosen.from;
  evaluated.step_text = chosen.StepText();
  evaluated.steps["live"] = chosen.from;
  evaluated.steps["steps"] = {chosen.least_step, chosen.most_step};
  return evaluated;
}

v1::EvaluatedPart PartOf(const ChosenModel& chosen) {
  v1::EvaluatedPart part;
  part.set_checkpoint(chosen.from);
  part.set_step(chosen.least_step);
  part.set_run_id(chosen.run_id);
  *part.mutable_snapshot() = chosen.snapshot;
  part.set_job_digest(chosen.job_digest);
  *part.mutable_data() = chosen.data->Describe();
  part.mutable_data()->clear_directory();
  part.mutable_data()->clear_host();
  part.set_examples(chosen.data->size());
  part.set_batch_examples(EvaluationBatch(chosen.model->cost()));
  part.set_index(chosen.part.index);
  part.set_count(chosen.part.count);
  return part;
}

absl::Status EvaluatePart(const WantedEvaluation& wanted,
                          const ChosenModel& chosen,
                          const EvaluationOptions& options) {
  v1::EvaluatedPart part = PartOf(chosen);
  Evaluated evaluated = OfChosen(chosen);
  evaluated.part =
      absl::StrCat("part ", chosen.part.index, "/", chosen.part.count);
  RETURN_IF_ERROR(EvaluateEach(*chosen.data, chosen.spans(), chosen.model.get(),
                               options, [&](const Metrics& batch) {
                                 evaluated.metrics += batch;
                                 *part.add_batches() = BatchMetricsOf(batch);
                               }));
  if (!wanted.json) {
    PrintEvaluated(wanted, evaluated);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text, MessageJson(part));
  OrderedJson all = JsonOf(evaluated);
  all["part"] = OrderedJson::parse(text);
  PrintJson(all);
  return absl::OkStatus();
}

absl::Status Evaluate(const WantedEvaluation& wanted,
                      const std::vector<std::string>& arguments,
                      const ModelFactory& models) {
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", arguments.front(),
                     "' is one argument too many; --job FILE is the job, and "
                     "files belong to --merge"));
  }
  ASSIGN_OR_RETURN(const ChosenModel chosen,
                   OpenChosenModel(wanted.chosen, models, ModelUse::kEvaluate));
  if (chosen.is_trained_on) {
    Print(
        "paramd: the job has no input.test, so this evaluates on what it is "
        "trained on\n",
        stderr);
  }
  const auto rows = chosen.rows();
  const EvaluationOptions options = {
      .threads = chosen.threads, .rows = rows, .part = chosen.part};
  if (!wanted.chosen.shard.empty()) {
    return EvaluatePart(wanted, chosen, options);
  }
  Evaluated evaluated = OfChosen(chosen);
  ASSIGN_OR_RETURN(evaluated.metrics, EvaluateOn(*chosen.data, chosen.spans(),
                                                 chosen.model.get(), options));
  PrintEvaluated(wanted, evaluated);
  return absl::OkStatus();
}

absl::Status Merge(const WantedEvaluation& wanted,
                   const std::vector<std::string>& files) {
  if (files.empty()) {
    return absl::InvalidArgumentError(
        "--merge needs files, what --shard I/N --json has printed");
  }
  const ChosenModelFlags& chosen = wanted.chosen;
  if (!chosen.job.job_path.empty() || !chosen.checkpoint.empty() ||
      !chosen.live.empty() || !chosen.shard.empty() ||
      !chosen.job.settings.empty() || !chosen.job.stage.empty()) {
    return absl::InvalidArgumentError(
        "--merge takes files alone: they say of which job and checkpoint "
        "they are");
  }
  std::vector<NamedPart> parts;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(NamedPart part, ReadEvaluatedPart(file));
    parts.push_back(std::move(part));
  }
  const v1::EvaluatedPart& first = parts.front().part;
  Evaluated evaluated = OfCheckpoint(first.checkpoint(), first.step());
  ASSIGN_OR_RETURN(evaluated.metrics, MergeParts(parts));
  PrintEvaluated(wanted, evaluated);
  return absl::OkStatus();
}

}  // namespace

int EvaluateCommand(const Invocation& invocation) {
  constexpr int kMostFiles = 1000000;
  WantedEvaluation wanted;
  Flags flags("evaluate",
              "--job FILE (--checkpoint PATH|--live ADDRESS) [flags]\n"
              "       paramd evaluate --merge FILE... [--json]",
              "Computes the loss and the metrics of a checkpoint's weights, or "
              "of those that servers\nhold now, on the job's test set, in this "
              "process. Changes nothing.");
  flags.AddSwitch("json", "print one JSON object", &wanted.json);
  flags.AddSwitch("merge",
                  "add up what --shard 0/N to N-1/N have printed with --json, "
                  "each in a file",
                  &wanted.merge);
  flags.AllowArguments(0, kMostFiles, "FILE");
  wanted.chosen.AddTo(&flags);
  flags.OnlyWith("threads", "an evaluation, without --merge",
                 [&] { return !wanted.merge; });
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const absl::Status status =
      wanted.merge ? Merge(wanted, flags.arguments())
                   : Evaluate(wanted, flags.arguments(), invocation.models);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
