#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "base/escape.h"
#include "base/print.h"
#include "cli/commands/chosen_model.h"
#include "cli/commands/command.h"
#include "cli/process/exit_code.h"
#include "cli/process/flags.h"
#include "worker/evaluation.h"

namespace paramd {
namespace {

void PrintText(const ChosenModel& chosen, const Metrics& metrics) {
  Print(absl::StrCat(EscapeLine(chosen.from), ", ", chosen.StepText(), ", ",
                     metrics.examples, " examples\n"));
  for (const NamedValue& value : metrics.Values()) {
    Print(absl::StrFormat("  %-12s %.6g\n", value.name, value.value));
  }
}

void PrintJson(const ChosenModel& chosen, const Metrics& metrics) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const NamedValue& value : metrics.Values()) {
    // JSON has no other numbers.
    values[value.name] = std::isfinite(value.value)
                             ? nlohmann::ordered_json(value.value)
                             : nlohmann::ordered_json(nullptr);
  }
  nlohmann::ordered_json all;
  all[chosen.live ? "live" : "checkpoint"] = chosen.from;
  if (chosen.live) {
    all["steps"] = {chosen.least_step, chosen.most_step};
  } else {
    all["step"] = chosen.least_step;
  }
  all["examples"] = metrics.examples;
  all["metrics"] = values;
  // In ASCII: a terminal obeys none of it, and paths may be no UTF-8.
  Print(absl::StrCat(
      all.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), "\n"));
}

}  // namespace

int EvaluateCommand(const Invocation& invocation) {
  ChosenModelFlags chosen_flags;
  bool json = false;
  Flags flags("evaluate",
              "--job FILE (--checkpoint PATH|--live ADDRESS) [flags]",
              "Computes the loss and the metrics of a checkpoint's weights, or "
              "of those that servers\nhold now, on the job's test set, in this "
              "process. Changes nothing.");
  flags.AddSwitch("json", "print one JSON object", &json);
  chosen_flags.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto chosen =
      OpenChosenModel(chosen_flags, invocation.models, ModelUse::kEvaluate);
  PrintError(chosen.status());
  if (!chosen.ok()) return ExitCodeAtStart(chosen.status());
  const auto metrics =
      EvaluateOn(*chosen->data, chosen->spans(), chosen->model.get(),
                 chosen_flags.threads, chosen->rows());
  PrintError(metrics.status());
  if (!metrics.ok()) return ExitCodeAtStart(metrics.status());
  json ? PrintJson(*chosen, *metrics) : PrintText(*chosen, *metrics);
  return kExitFinished;
}

}  // namespace paramd
