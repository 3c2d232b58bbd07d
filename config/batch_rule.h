#ifndef PARAMD_CONFIG_BATCH_RULE_H_
#define PARAMD_CONFIG_BATCH_RULE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// How many examples what is of, in a job whose defaults are filled in. A
// gradient is of `accumulate` batches of batch_per_replica examples, fewer at
// the end of what there is; a push is of one gradient, and in the modes without
// steps of `push_every`.
uint64_t ExamplesPerGradient(const v1::JobConfig& job);
uint64_t ExamplesPerPush(const v1::JobConfig& job, bool sync);

// Of so many examples is a whole batch, where `batch` drops the remainder: as
// the job file says it, whatever the strategy and the number of workers.
uint64_t WholeBatch(const v1::JobConfig& job);

// Where the job has a global batch, sets batch_per_replica to what each of so
// many replicas of all workers computes of it at a time: global_batch =
// batch_per_replica x accumulate x workers. INVALID_ARGUMENT, a sentence with
// the nearest global batches that can be divided so, and the job unchanged, if
// this one can't, or if batches of one example teach its loss nothing.
// REQUIRES: workers > 0.
absl::Status DeriveBatch(uint32_t workers, v1::JobConfig* job);

}  // namespace paramd

#endif  // PARAMD_CONFIG_BATCH_RULE_H_
