#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/chosen_model.h"
#include "cli/commands/command.h"
#include "cli/commands/output_file.h"
#include "cli/commands/prediction_file.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "worker/evaluation.h"

namespace paramd {
namespace {

// As they were typed.
struct WantedPredictions {
  ChosenModelFlags chosen;
  std::string format = "csv";
  std::string output;
};

absl::Status Write(const ChosenModel& chosen, PredictionFile::Format format,
                   std::FILE* file) {
  // Parts of lines, one after the other, are a file.
  PredictionFile predictions(format, file, /*names=*/chosen.part.index == 0);
  const auto rows = chosen.rows();
  RETURN_IF_ERROR(
      PredictOn(*chosen.data, chosen.spans(), chosen.model.get(),
                {.threads = chosen.threads, .rows = rows, .part = chosen.part},
                [&](const Batch& predicted) {
                  return predictions.Add(predicted.columns);
                }));
  return predictions.Finish();
}

absl::Status Predict(const WantedPredictions& wanted,
                     const ModelFactory& models) {
  ASSIGN_OR_RETURN(const auto format,
                   PredictionFile::ParseFormat(wanted.format));
  if (format == PredictionFile::Format::kNpy && wanted.output.empty()) {
    return absl::InvalidArgumentError("--format npy needs --output FILE");
  }
  if (!wanted.output.empty()) {
    RETURN_IF_ERROR(CheckOutputFile("--output", wanted.output));
  }
  ASSIGN_OR_RETURN(const ChosenModel chosen,
                   OpenChosenModel(wanted.chosen, models, ModelUse::kPredict));
  if (chosen.live) {
    Print(absl::StrCat("paramd: weights of ", EscapeLine(chosen.from), ", ",
                       chosen.StepText(), "\n"),
          stderr);
  }
  if (wanted.output.empty()) return Write(chosen, format, stdout);
  ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                   OutputFile::Open("--output", wanted.output));
  RETURN_IF_ERROR(Write(chosen, format, file->stream()));
  return file->Finish();
}

}  // namespace

int PredictCommand(const Invocation& invocation) {
  WantedPredictions wanted;
  Flags flags(
      "predict", "--job FILE (--checkpoint PATH|--live ADDRESS) [flags]",
      "Writes what the model with a checkpoint's weights, or those that "
      "servers\nhold now, says of the job's test set, in the order of "
      "the input: for a loss\nover classes their probabilities. The "
      "test set needs no labels.");
  flags.AddText("format", "csv|jsonl|npy", "what is written", &wanted.format);
  flags.AddText("output", "FILE",
                "where it is written; without, to the terminal or a pipe",
                &wanted.output);
  wanted.chosen.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const absl::Status status = Predict(wanted, invocation.models);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
