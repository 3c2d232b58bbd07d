#ifndef PARAMD_CLI_COMMANDS_STAGE_FIGURES_H_
#define PARAMD_CLI_COMMANDS_STAGE_FIGURES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "cli/stages/stage_record.h"
#include "process/job_flags.h"
#include "worker/model_factory.h"

namespace paramd {

// Fills in what the newest checkpoint of a stage comes to: its path and step,
// the metrics on the test set, bytes, zeros and speed. `flags` name the stage.
// The errors of OpenChosenModel and of EvaluateOn.
absl::Status MeasureCheckpoint(const JobFlags& flags, const std::string& where,
                               const ModelFactory& models, StageRecord* record);

// Fills in the bytes of the file `path`, or of those in the directory.
absl::Status MeasureFiles(const std::string& path, StageRecord* record);

// How many bytes `gzip -9` leaves of the text, but for some of its header.
class CompressedSize {
 public:
  CompressedSize();
  CompressedSize(const CompressedSize&) = delete;
  CompressedSize& operator=(const CompressedSize&) = delete;
  ~CompressedSize();

  void Append(absl::string_view bytes);
  // REQUIRES: nothing is appended any more.
  uint64_t Finish();

 private:
  struct Stream;
  void Deflate(int flush);

  Stream* const stream_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_STAGE_FIGURES_H_
