#ifndef PARAMD_TESTS_SIM_TRAINED_RUN_H_
#define PARAMD_TESTS_SIM_TRAINED_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/trained_tensors.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tensor/buffer.h"
#include "tests/sim/storage.h"

namespace paramd {

// The newest checkpoint of a run that has ended, for another one to begin with,
// as it was written.
//
// Not thread-safe. The storage outlives it and is not written any more.
class TrainedRun : public TrainedTensors {
 public:
  // REQUIRES: a checkpoint is committed.
  explicit TrainedRun(const SimStorage& storage);

  std::vector<std::string> names() const override;
  absl::StatusOr<Tensor> Find(const std::string& name) override;
  absl::Status Read(absl::Span<const Rows> wanted, BufferChain* out) override;
  absl::Status ReadKeys(const Rows& wanted, Keys* out) override;

 private:
  const SimStorage& storage_;
  const v1::Manifest& manifest_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_TRAINED_RUN_H_
