#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/export.h"
#include "checkpoint/file.h"
#include "checkpoint/verify.h"
#include "cli/commands/command.h"
#include "cli/commands/onnx_export.h"
#include "cli/commands/stage_figures.h"
#include "compute/onnx/opset.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/terminal/byte_progress.h"
#include "process/terminal/byte_size.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"

namespace paramd {
namespace {

// A model with as many zeros was pruned.
constexpr double kPruned = 0.1;

// As they were typed.
struct WantedExport {
  std::string to;
  std::string format = "safetensors";
  std::string dtype = "fp32";
  std::string max_shard_size = "5GB";
  bool slots = false;
  WantedOnnx onnx;
};

// Of an ONNX file a job says what its layers are; the others need none.
absl::Status CheckOnnxFlags(const WantedExport& wanted) {
  const bool is_onnx = wanted.format == "onnx";
  if (!is_onnx &&
      (!wanted.onnx.job.job_path.empty() || !wanted.onnx.job.settings.empty() ||
       !wanted.onnx.job.stage.empty())) {
    return absl::InvalidArgumentError(
        "--job, --stage and settings of a job belong to --format onnx");
  }
  if (is_onnx && (wanted.slots || wanted.dtype != "fp32")) {
    return absl::InvalidArgumentError(absl::StrCat(
        wanted.slots ? "--slots: an ONNX file has the model alone"
                     : "--dtype: an ONNX file computes in fp32; for smaller "
                       "weights quantise the checkpoint first (paramd "
                       "quantize)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExportOptions> OptionsOf(const WantedExport& wanted) {
  ExportOptions options;
  if (wanted.to.empty()) {
    return absl::InvalidArgumentError(
        "missing --to OUT, the directory to make");
  }
  options.to = wanted.to;
  options.slots = wanted.slots;
  if (wanted.format == "tensorbundle") {
    options.layout = ExportOptions::Layout::kTensorBundle;
  } else if (wanted.format != "safetensors") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is safetensors, tensorbundle or onnx, not '",
                     wanted.format, "'"));
  }
  if (wanted.dtype == "bf16") {
    options.dtype = NumberFormat::kBf16;
  } else if (wanted.dtype == "fp16") {
    options.dtype = NumberFormat::kFp16;
  } else if (wanted.dtype != "fp32") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dtype is fp32, fp16 or bf16, not '", wanted.dtype, "'"));
  }
  const auto bytes = ParseByteSize(wanted.max_shard_size);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_shard_size: ", bytes.status().message()));
  }
  options.max_shard_bytes = *bytes;
  return options;
}

absl::StatusOr<ExportResult> Export(const std::string& path,
                                    const WantedExport& wanted) {
  RETURN_IF_ERROR(CheckOnnxFlags(wanted));
  ASSIGN_OR_RETURN(ExportOptions options, OptionsOf(wanted));
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(path));
  const std::string& newest = paths.front();
  const std::string name = newest.substr(newest.rfind('/') + 1);
  Console console(stdout, stderr, StdoutIsTerminal());
  ByteProgress progress(&console, MonotonicNow);
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(newest));
  progress.Begin(absl::StrCat("exporting ", name));
  options.progress = [&](uint64_t bytes, uint64_t total) {
    progress.Update(bytes, total);
  };
  return ExportCheckpoint(reader.get(), options);
}

// Of a pruned model, whose files are as long as any other's until they are
// compressed: of the files in `path`, or of the file that it is.
void PrintCompressed(const std::string& path, uint64_t zeros,
                     uint64_t numbers) {
  const double share = static_cast<double>(zeros) /
                       static_cast<double>(std::max<uint64_t>(1, numbers));
  if (share < kPruned) return;
  std::string text =
      absl::StrFormat("%.1f %% of the weights are zero", 100 * share);
  const bool is_one = !IsDirectory(path);
  StageRecord sizes;
  const absl::Status measured = MeasureFiles(path, &sizes);
  if (!measured.ok() || !sizes.compressed_bytes.has_value()) {
    absl::StrAppend(&text, is_one ? ", so the file compresses well\n"
                                  : ", so the files compress well\n");
  } else {
    absl::StrAppendFormat(
        &text,
        ": the %s %d bytes, and %d compressed as gzip -9 does it, "
        "%.2f times fewer\n",
        is_one ? "file has" : "files have", sizes.bytes,
        *sizes.compressed_bytes,
        static_cast<double>(sizes.bytes) /
            static_cast<double>(
                std::max<uint64_t>(1, *sizes.compressed_bytes)));
  }
  Print(text);
}

int ExportTensors(const std::string& path, const WantedExport& wanted) {
  const auto result = Export(path, wanted);
  PrintError(result.status());
  if (!result.ok()) return ExitCodeAtStart(result.status());
  if (result->overflowed > 0) {
    Print(absl::StrCat("paramd: ", result->overflowed,
                       " of the numbers are too large for ", wanted.dtype,
                       " and are infinite in it\n"),
          stderr);
  }
  if (result->uneven > 0) {
    Print(absl::StrCat("paramd: not all rows of ", result->uneven,
                       " variables have been updated equally often; "
                       "/slot:step is the most\n"),
          stderr);
  }
  PrintCompressed(result->directory, result->zeros, result->numbers);
  Print(absl::StrCat(EscapeLine(result->directory), ": ", result->tensors,
                     " tensors, ", BytesText(result->bytes), ", in\n"));
  for (const std::string& file : result->files) {
    Print(absl::StrCat("  ", EscapeLine(file), "\n"));
  }
  return kExitFinished;
}

absl::StatusOr<OnnxExport> ExportAsOnnx(const std::string& path,
                                        const WantedExport& wanted) {
  RETURN_IF_ERROR(CheckOnnxFlags(wanted));
  if (wanted.to.empty()) {
    return absl::InvalidArgumentError("missing --to OUT, the file to write");
  }
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(path));
  WantedOnnx onnx = wanted.onnx;
  onnx.to = wanted.to;
  return ExportOnnx(paths.front(), onnx);
}

int ExportModel(const std::string& path, const WantedExport& wanted) {
  const auto written = ExportAsOnnx(path, wanted);
  PrintError(written.status());
  if (!written.ok()) return ExitCodeAtStart(written.status());
  PrintCompressed(written->path, written->zeros, written->numbers);
  Print(absl::StrCat(written->line, "\n"));
  return kExitFinished;
}

}  // namespace

int CheckpointExportCommand(const Invocation& invocation) {
  WantedExport wanted;
  Flags flags("checkpoint export", "PATH --to OUT [flags]",
              "Writes a checkpoint's variables, each as one tensor, for other "
              "programs: as one\nHugging Face style directory or as a "
              "TensorFlow checkpoint; or the whole model with\nits layers, as "
              "the file of ONNX that OUT is then. Of a run the newest is "
              "taken.");
  flags.AddText("to", "OUT", "the directory to make", &wanted.to);
  flags.AddText("format", "safetensors|tensorbundle|onnx", "what is written",
                &wanted.format);
  flags.AddText("dtype", "fp32|fp16|bf16", "of the values; slots stay fp32",
                &wanted.dtype);
  flags.AddText("max_shard_size", "SIZE",
                "safetensors: begin another file at this many bytes",
                &wanted.max_shard_size);
  flags.AddSwitch("slots", "write the optimizer's slots too", &wanted.slots);
  flags.AddCount("opset", "onnx: the version of its operators",
                 {kLeastOpset, kMostOpset}, &wanted.onnx.opset);
  flags.OnlyWith("max_shard_size", "--format safetensors",
                 [&] { return wanted.format == "safetensors"; });
  flags.OnlyWith("opset", "--format onnx",
                 [&] { return wanted.format == "onnx"; });
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  wanted.onnx.job.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const std::string& path = flags.arguments()[0];
  return wanted.format == "onnx" ? ExportModel(path, wanted)
                                 : ExportTensors(path, wanted);
}

}  // namespace paramd
