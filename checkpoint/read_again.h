#ifndef PARAMD_CHECKPOINT_READ_AGAIN_H_
#define PARAMD_CHECKPOINT_READ_AGAIN_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace paramd {

// Whether what failed with this may go well in a moment: an I/O error, a stale
// handle, a time-out, a server that is not reached, as a shared file system
// gives them while one of its servers comes back. What an error of this kind
// says of the file is nothing.
bool MayPass(const absl::Status& status);

// What `read` answers. While that is something that may pass, asks again, three
// times within 2.6 s; after that the last answer, which then says how often.
// Blocks its thread. Thread-safe.
absl::Status ReadAgain(absl::FunctionRef<absl::Status()> read);

// Waits by `pause` from now on, in all threads; null: as ever. For tests, in
// which nobody waits.
void PauseReadsForTest(void (*pause)(absl::Duration));

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_READ_AGAIN_H_
