#ifndef PARAMD_CLI_COMMANDS_PREDICTION_FILE_H_
#define PARAMD_CLI_COMMANDS_PREDICTION_FILE_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "worker/input/batch.h"

namespace paramd {

// What a model predicts, one example after the other.
//
//   csv    a line of names ("prediction", or "prediction_0", ...), then a line
//          for each example
//   jsonl  {"prediction": number, or a list of them as they are shaped, flat}
//   npy    version 1.0, '<f4', shape (examples, ...); its header is written
//   last,
//          so it needs a file that can be sought in
//
// Numbers are written so that they read as the same float.
//
// Not thread-safe.
class PredictionFile {
 public:
  enum class Format { kCsv, kJsonLines, kNpy };
  // INVALID_ARGUMENT for any other text than "csv", "jsonl" and "npy".
  static absl::StatusOr<Format> ParseFormat(absl::string_view text);

  // `file` outlives it. Without `names` it begins with the first example's
  // line: it is a further part of a file.
  PredictionFile(Format format, std::FILE* file, bool names = true)
      : format_(format), file_(file), names_(names) {}

  // Those of further examples, or none, of one spec each time. INTERNAL if they
  // are no floats.
  absl::Status Add(const Column& predictions);
  // UNAVAILABLE if not all of it could be written.
  absl::Status Finish();

 private:
  void Begin(const FeatureSpec& spec);
  void AddLine(absl::Span<const float> values);
  std::string NpyHeader() const;

  const Format format_;
  std::FILE* const file_;
  const bool names_;
  bool begun_ = false;
  FeatureSpec spec_;
  uint64_t examples_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_PREDICTION_FILE_H_
