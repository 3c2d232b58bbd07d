#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/flags.h"
#include "cli/saved_model.h"

namespace paramd {
namespace {

absl::StatusOr<Metrics> Evaluate(const SavedModel& saved) {
  const auto weights = saved.spans();
  Metrics sum;
  RETURN_IF_ERROR(
      ForEachBatch(*saved.data, [&](const Batch& batch) -> absl::Status {
        ASSIGN_OR_RETURN(const Metrics metrics,
                         saved.model->Evaluate(weights, batch));
        sum += metrics;
        return absl::OkStatus();
      }));
  return sum;
}

void PrintText(const SavedModel& saved, const Metrics& metrics) {
  std::printf("%s, step %s, %s examples\n", saved.path.c_str(),
              absl::StrCat(saved.step).c_str(),
              absl::StrCat(metrics.examples).c_str());
  for (const NamedValue& value : metrics.Values()) {
    std::printf("  %-12s %.6g\n", value.name.c_str(), value.value);
  }
}

void PrintJson(const SavedModel& saved, const Metrics& metrics) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const NamedValue& value : metrics.Values()) {
    // JSON has no other numbers.
    values[value.name] = std::isfinite(value.value)
                             ? nlohmann::ordered_json(value.value)
                             : nlohmann::ordered_json(nullptr);
  }
  const nlohmann::ordered_json all = {{"checkpoint", saved.path},
                                      {"step", saved.step},
                                      {"examples", metrics.examples},
                                      {"metrics", values}};
  std::printf("%s\n", all.dump().c_str());
}

}  // namespace

int EvaluateCommand(const Invocation& invocation) {
  SavedModelFlags saved_flags;
  bool json = false;
  Flags flags("evaluate", "--job FILE --checkpoint PATH [flags]",
              "Computes the loss and the metrics of a checkpoint's weights on "
              "the job's test set, in\nthis process. Changes nothing.");
  flags.AddSwitch("json", "print one JSON object", &json);
  saved_flags.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto saved = OpenSavedModel(saved_flags, invocation.models);
  PrintError(saved.status());
  if (!saved.ok()) return ExitCodeAtStart(saved.status());
  const auto metrics = Evaluate(*saved);
  PrintError(metrics.status());
  if (!metrics.ok()) return ExitCodeAtStart(metrics.status());
  json ? PrintJson(*saved, *metrics) : PrintText(*saved, *metrics);
  return kExitFinished;
}

}  // namespace paramd
