#ifndef PARAMD_CLIENT_OPERATOR_CALLS_H_
#define PARAMD_CLIENT_OPERATOR_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "net/tls.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Where a process, mostly the chief of a job, takes operators' calls.
struct ChiefAddress {
  std::string socket = {};              // On its machine, see ChiefSocket; or:
  std::string address = {};             // host:port, with
  std::shared_ptr<const Tls> tls = {};  // an operator's certificate.
};

// Where the chief of the run in this directory takes operators' calls.
std::string ChiefSocket(const std::string& run_dir);

// They ask again where the process says that this may help, for `timeout`.
// Errors: kNotFound if there is no socket; kUnavailable, naming the chief, if
// nobody answers there or it is still waiting for something; otherwise the
// chief's own.

// Changes a setting of its job.
absl::StatusOr<v1::SetReply> CallSet(const ChiefAddress& chief,
                                     const v1::SetRequest& request,
                                     absl::Duration timeout);
// Has a checkpoint written, and waits until it is. kUnavailable, naming it, if
// it is not in time: it will be all the same.
absl::StatusOr<v1::CheckpointReply> CallCheckpoint(const ChiefAddress& chief,
                                                   absl::Duration timeout);

// Has a ps of its job hand over what it holds and end, and waits until it may.
// `nonce`: random, of this call. `waits` is told whom it waits for, whenever
// that changes. kUnavailable if that does not happen in time: it will all the
// same.
absl::Status CallDrain(const ChiefAddress& chief, uint32_t ps, uint64_t nonce,
                       absl::Duration timeout,
                       const std::function<void(const v1::DrainReply&)>& waits);

// Has the first `servers` ps of its job hold everything, and waits until they
// do. As above.
absl::Status CallScale(const ChiefAddress& chief, uint32_t servers,
                       uint64_t nonce, absl::Duration timeout,
                       const std::function<void(const v1::ScaleReply&)>& waits);

// How a job was stopped.
struct StoppedByOperator {
  // Nobody stopped it: it came to its end meanwhile.
  bool finished = false;
  // What all its processes say.
  std::string sentence = {};
};
// Stops its job in good order, or with `now` at once, and waits until its chief
// has ended or stays idle. `nonce`: random, of this call. `waits` is told whom
// it waits for, whenever that changes, and whether somebody else stopped the
// job before. kUnavailable, naming what is waited for, if it is not stopped in
// time: it will be all the same.
absl::StatusOr<StoppedByOperator> CallStop(
    const ChiefAddress& chief, bool now, uint64_t nonce, absl::Duration timeout,
    const std::function<void(const v1::StopJobReply&)>& waits);

// Has the process there, any of a job, sample what it spends its processors'
// time on for `duration`, and waits for that and no more than `timeout`
// besides. `nonce`: random, of this call. Errors: as above. Whoever answers may
// be a stranger.
absl::StatusOr<v1::ProfileReply> CallProfile(const ChiefAddress& process,
                                             absl::Duration duration,
                                             uint64_t nonce,
                                             absl::Duration timeout);

}  // namespace paramd

#endif  // PARAMD_CLIENT_OPERATOR_CALLS_H_
