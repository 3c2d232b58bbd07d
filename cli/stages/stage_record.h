#ifndef PARAMD_CLI_STAGES_STAGE_RECORD_H_
#define PARAMD_CLI_STAGES_STAGE_RECORD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "nlohmann/json.hpp"

#include "config/job_config.h"

namespace paramd {

// What a stage of a job has come to. It lies in the stage's directory once the
// stage is finished, and is what says that it is.
struct StageRecord {
  std::string name;
  std::string kind;  // StageKindName: "trains"
  std::string from;  // Another stage; empty: none.
  // What the stage was told, StageLines.
  std::vector<std::string> settings;
  std::string result;  // Path of its last checkpoint, or of what it wrote.
  uint64_t step = 0;   // Of the checkpoint.
  // On the test set, in the order in which a model has them: {"loss", 0.31}.
  // None of a stage that exports or labels.
  std::vector<std::pair<std::string, double>> metrics;
  uint64_t examples = 0;  // That they are of.
  // Of the weights as they are stored, without what an optimizer keeps; of a
  // stage that exports or labels, of its files. What is left of them as `gzip
  // -9` has it.
  uint64_t bytes = 0;
  absl::optional<uint64_t> compressed_bytes;
  // Share of weights that are 0. Not of one that exports or labels.
  absl::optional<double> zeros;
  // That one thread predicts, of examples in memory.
  absl::optional<double> examples_per_second;

  absl::optional<double> Metric(absl::string_view name) const;
};

// What tells two stages apart: the job-wide settings, with other stages by
// their names, and what the stage itself says, "path=value" each.
std::vector<std::string> StageLines(const LoadedJob& stage);

nlohmann::ordered_json JsonOf(const StageRecord& record);

// Of the stage in `directory`: NOT_FOUND if it is not finished, DATA_LOSS,
// naming the file, if it can't be understood.
absl::StatusOr<StageRecord> ReadStageRecord(const std::string& directory);
// Durable, and whole or not at all.
absl::Status WriteStageRecord(const std::string& directory,
                              const StageRecord& record);

// Writes a file of this content, in place of what has its name.
absl::Status ReplaceFile(const std::string& path, absl::string_view content);

}  // namespace paramd

#endif  // PARAMD_CLI_STAGES_STAGE_RECORD_H_
