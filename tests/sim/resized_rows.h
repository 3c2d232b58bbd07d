#ifndef PARAMD_TESTS_SIM_RESIZED_ROWS_H_
#define PARAMD_TESTS_SIM_RESIZED_ROWS_H_

#include "absl/status/status.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/storage.h"

namespace paramd {

// Whether a server with twice the capacity would restore of this checkpoint
// what it has: of each key its values, the optimizer's slots, and how many
// pushes ago it was used; and as many pushes by their count as by the records.
// kDataLoss naming what it would not; OK if the job has no rows by key.
absl::Status CheckResized(const SimStorage& storage, const IntegerJob& job,
                          const v1::Manifest& manifest);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_RESIZED_ROWS_H_
