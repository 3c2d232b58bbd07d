#ifndef PARAMD_CLI_COMMANDS_PREDICTION_FILE_H_
#define PARAMD_CLI_COMMANDS_PREDICTION_FILE_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "input/batch.h"

namespace paramd {

// What a model predicts, one example after the other.
//
//   csv    a line of names ("prediction", or "prediction_0", ...), then a line
//          for each example
//   jsonl  {"prediction": number, or a list of them as they are shaped, flat}
//   npy    version 1.0, '<f4', shape (examples, ...); its header is written
//          last, so it needs a file that can be sought in
//
// Of a model with several outputs they are called as these, one after the
// other; in npy they are the columns of one array.
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

  // Those of further examples, or none, of one spec each time: a column for
  // each output. INTERNAL if they are no floats; UNAVAILABLE if something
  // could not be written, here as in Finish.
  absl::Status Add(absl::Span<const Column> predictions);
  // INVALID_ARGUMENT if npy can't be sought in.
  absl::Status Finish();

 private:
  void Begin(absl::Span<const Column> predictions);
  // Of an example, of each output in order.
  void AddLine(absl::Span<const absl::Span<const float>> outputs);
  std::string NpyHeader() const;
  absl::Status CheckWritten() const;

  const Format format_;
  std::FILE* const file_;
  const bool names_;
  bool begun_ = false;
  std::vector<FeatureSpec> specs_;
  uint64_t examples_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_PREDICTION_FILE_H_
