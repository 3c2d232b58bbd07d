#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/flags.h"
#include "cli/prediction_file.h"
#include "cli/saved_model.h"

namespace paramd {
namespace {

// As they were typed.
struct Wanted {
  SavedModelFlags saved;
  std::string format = "csv";
  std::string output;
};

absl::Status Write(const SavedModel& saved, PredictionFile::Format format,
                   std::FILE* file) {
  PredictionFile predictions(format, file);
  const auto weights = saved.spans();
  Batch out;
  RETURN_IF_ERROR(
      ForEachBatch(*saved.data, [&](const Batch& batch) -> absl::Status {
        RETURN_IF_ERROR(saved.model->Predict(weights, batch, &out));
        const Column* const column = out.Find("prediction");
        if (column == nullptr) {
          return absl::InternalError("the model gives no column 'prediction'");
        }
        return predictions.Add(*column);
      }));
  return predictions.Finish();
}

absl::Status Predict(const Wanted& wanted, const ModelFactory& models) {
  ASSIGN_OR_RETURN(const auto format,
                   PredictionFile::ParseFormat(wanted.format));
  if (format == PredictionFile::Format::kNpy && wanted.output.empty()) {
    return absl::InvalidArgumentError("--format npy needs --output FILE");
  }
  ASSIGN_OR_RETURN(const SavedModel saved,
                   OpenSavedModel(wanted.saved, models));
  if (wanted.output.empty()) return Write(saved, format, stdout);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(wanted.output.c_str(), "wb"), &std::fclose);
  if (file == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--output: '", wanted.output, "': ", std::strerror(errno)));
  }
  return Write(saved, format, file.get());
}

}  // namespace

int PredictCommand(const Invocation& invocation) {
  Wanted wanted;
  Flags flags("predict", "--job FILE --checkpoint PATH [flags]",
              "Writes what the model with a checkpoint's weights says of the "
              "job's test set, in the\norder of the input: for a loss over "
              "classes their probabilities.");
  flags.AddText("format", "csv|jsonl|npy", "what is written", &wanted.format);
  flags.AddText("output", "FILE",
                "where it is written; without, to the terminal or a pipe",
                &wanted.output);
  wanted.saved.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const absl::Status status = Predict(wanted, invocation.models);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
