#ifndef PARAMD_COMPUTE_DEVICE_DEVICE_CLAIMS_H_
#define PARAMD_COMPUTE_DEVICE_DEVICE_CLAIMS_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"

#include "base/mutex.h"

namespace paramd {

// Which GPUs processes of this machine compute on, so that two workers take two
// of them, and are warned if both were told the same. A claim is a lock on a
// file, <directory>/paramd-<gpu>.lock: it ends with the process, however that
// ends. It keeps nobody from anything. Thread-safe.
class DeviceClaims {
 public:
  // $TMPDIR, or /tmp.
  DeviceClaims();
  explicit DeviceClaims(std::string directory);
  ~DeviceClaims();
  DeviceClaims(const DeviceClaims&) = delete;
  DeviceClaims& operator=(const DeviceClaims&) = delete;

  // Those of this process, which keeps them.
  static DeviceClaims& OfProcess();

  // True if nobody else has the GPU; who asks has it now. `gpu`: its address on
  // the bus, the same for every process. True also where no file can be made.
  bool Claim(absl::string_view gpu) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string directory_;
  Mutex mutex_;
  std::map<std::string, int> held_ ABSL_GUARDED_BY(mutex_);  // Files.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_DEVICE_CLAIMS_H_
