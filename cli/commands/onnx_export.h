#ifndef PARAMD_CLI_COMMANDS_ONNX_EXPORT_H_
#define PARAMD_CLI_COMMANDS_ONNX_EXPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "process/job_flags.h"

namespace paramd {

struct WantedOnnx {
  JobFlags job;
  int opset = 13;
  std::string to;
};

struct OnnxExport {
  std::string path;  // From the root.
  std::string line;  // What it reads and gives.
  // Of the weights, as floats, and those of them that are zero.
  uint64_t numbers = 0;
  uint64_t zeros = 0;
};

// Writes the model of the job with the weights of the checkpoint in `directory`
// as one ONNX file, which appears whole or not at all. ALREADY_EXISTS if there
// is something of that name; INVALID_ARGUMENT, a sentence, if a program brings
// the model, or the data mean another thing than those that were trained on;
// the errors of the job file, of its data, of the checkpoint and of
// WriteOnnxModel.
absl::StatusOr<OnnxExport> ExportOnnx(const std::string& directory,
                                      const WantedOnnx& wanted);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_ONNX_EXPORT_H_
