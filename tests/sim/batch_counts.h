#ifndef PARAMD_TESTS_SIM_BATCH_COUNTS_H_
#define PARAMD_TESTS_SIM_BATCH_COUNTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/push_ledger.h"

namespace paramd {

// How many batches each block of a checkpoint has, of a job that counts them
// (IntegerJob::Options::counted), against what was pushed and what is left,
// whatever the mode was and whoever died: at least those that are used, but for
// the pushes that its file lists as lost; at most each used one as often as it
// was pushed by itself, and once of a step, and one that is left as often as it
// was pushed before the cut, by sessions that have ended.
//
// Not thread-safe. The job outlives it.
class BatchCounts {
 public:
  explicit BatchCounts(const IntegerJob& job) : job_(job) {}

  // A request leaves a process.
  void Sent(const google::protobuf::Message& request);
  // `values`: those of the checkpoint, by variable. kDataLoss naming the first
  // block whose number of batches can't be, or that is torn.
  absl::Status Check(const v1::Manifest& manifest,
                     const std::vector<std::vector<float>>& values) const;

  // Whether the input of a checkpoint leaves this batch to do.
  static bool IsLeft(const BatchPlace& batch, const v1::SavedInput& input);
  // Pushes that a checkpoint lists as lost, one that several files list once.
  static uint64_t LostIn(const v1::Manifest& manifest);

 private:
  using Push = std::pair<SessionKey, uint64_t>;
  struct Made {
    std::map<Push, Number> alone;  // And the stamp of each.
    bool of_step = false;
  };
  // Of a batch that is used, and of one that is left.
  struct Most {
    uint64_t used = 0;
    uint64_t left = 0;
  };

  absl::Status CheckFile(const v1::ShardFile& file, uint64_t used,
                         uint64_t most,
                         const std::vector<std::vector<float>>& values) const;

  const IntegerJob& job_;
  std::map<BatchPlace, Made> made_;
  std::map<Number, std::map<BatchPlace, Most>> sealed_;  // By snapshot.
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_BATCH_COUNTS_H_
