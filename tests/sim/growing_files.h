#ifndef PARAMD_TESTS_SIM_GROWING_FILES_H_
#define PARAMD_TESTS_SIM_GROWING_FILES_H_

#include <cstdint>

#include "absl/status/status.h"

#include "base/random.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/message.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/storage.h"

namespace paramd {

// The directory of an IntegerJob that grows: file "k" holds epoch k. Between
// two looks one more file may have appeared, or two, or none; now and then
// nobody can look.
//
// Not thread-safe; outlives the simulations that it serves, as do the job and
// the storage.
class GrowingFiles {
 public:
  GrowingFiles(const IntegerJob& job, const SimStorage& storage, uint64_t seed)
      : job_(job),
        storage_(storage),
        random_(StableHash("growing files", seed)) {}

  IoResult Scan(const v1::ScanInput& request);

  // A worker is given part of an epoch, and this is said to be its files: those
  // that the log says by then.
  absl::Status CheckGiven(const v1::FetchPortion& fetch) const;
  // The log has each epoch once, in order, and each file in one epoch.
  absl::Status CheckLog() const;

  // Looks that found something, and those that found nothing.
  uint64_t found() const { return found_; }
  uint64_t in_vain() const { return in_vain_; }

 private:
  v1::EpochFiles FilesOf(uint32_t epoch) const;

  const IntegerJob& job_;
  const SimStorage& storage_;
  RandomStream random_;
  uint32_t appeared_ = 0;
  uint64_t found_ = 0;
  uint64_t in_vain_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_GROWING_FILES_H_
