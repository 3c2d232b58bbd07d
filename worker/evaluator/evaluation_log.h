#ifndef PARAMD_WORKER_EVALUATOR_EVALUATION_LOG_H_
#define PARAMD_WORKER_EVALUATOR_EVALUATION_LOG_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What checkpoints came to, one line of JSON each, in the order of evaluation:
//
//   {"accuracy":0.8812,"correct":8812,"examples":10000,"labels":10000,
//    "loss":0.331,"number":"1.5","seconds":0.42,"step":9370}
//
// with each metric that the model has under its name. Without "correct" and
// "labels" where the model has nothing that can be right.
//
// Invariant: the file is replaced as a whole, durably; a reader never sees half
// a line. Lines that it can't read are kept.
//
// Not thread-safe. One process at a time writes a file.
class EvaluationLog {
 public:
  struct Line {
    v1::SnapshotNumber number;  // The checkpoint's.
    uint64_t step = 0;
    v1::Evaluation evaluation;
    double seconds = 0;  // That the evaluation took.
  };

  // Reads what is there; nothing need be. An error names the file.
  static absl::StatusOr<EvaluationLog> Open(std::string path);

  bool Has(const v1::SnapshotNumber& number) const;
  // Of the last line; 0 if there is none.
  uint64_t last_step() const { return last_step_; }

  // On error the file is as it was, and the line is not there.
  absl::Status Append(const Line& line);

 private:
  explicit EvaluationLog(std::string path) : path_(std::move(path)) {}

  void Take(const std::string& line);

  std::string path_;
  std::string text_;
  std::set<std::string> numbers_;  // Bound: checkpoints of the run.
  uint64_t last_step_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATOR_EVALUATION_LOG_H_
