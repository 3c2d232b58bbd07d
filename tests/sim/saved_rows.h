#ifndef PARAMD_TESTS_SIM_SAVED_ROWS_H_
#define PARAMD_TESTS_SIM_SAVED_ROWS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/storage.h"

namespace paramd {

// Numbers of a variable in a checkpoint, where IntegerJob counts them: of a
// keyed one by key, whichever rows its keys have.
struct SavedRows {
  // A key that is not there has its initial values, and zeros in slots.
  std::vector<float> numbers;
  std::vector<bool> present;  // By key of the job; empty: it has none.
};

// The values of the job's variable `v`, or those of a slot of it. kDataLoss as
// ReadVariable, and if a key is not the job's, in another's bucket, or twice
// there.
absl::StatusOr<SavedRows> ReadRows(const SimStorage& storage,
                                   const IntegerJob& job,
                                   const v1::Manifest& manifest, size_t v,
                                   const std::string& slot);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SAVED_ROWS_H_
