#ifndef PARAMD_CLIENT_TRACED_PROCESS_H_
#define PARAMD_CLIENT_TRACED_PROCESS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/time.h"
#include "client/operator_calls.h"
#include "client/operator_connection.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// A process of a running job that is to record what it does, over one
// connection. Each method is one call, which is not made again: a process that
// is being traced for somebody else says so at once (RETRY). Errors besides:
// kUnavailable, naming the process, if nobody answers there within `timeout`;
// otherwise the process's own. Whoever answers may be a stranger.
//
// Not thread-safe.
class TracedProcess {
 public:
  // kNotFound if there is no socket. Nobody is called yet.
  static absl::StatusOr<std::unique_ptr<TracedProcess>> Connect(
      const ChiefAddress& process);

  absl::StatusOr<v1::StatusReply> Status(absl::Duration timeout);
  // What the variables of its job are called, and their slices. Of a chief.
  absl::StatusOr<v1::Layout> Layout(absl::Duration timeout);

  // When the call was made and its answer there, by our monotonic clock.
  struct Answer {
    v1::TraceReply reply;
    Time sent;
    Time received;
  };
  absl::StatusOr<Answer> Trace(const v1::TraceRequest& request,
                               absl::Duration timeout);

 private:
  explicit TracedProcess(OperatorConnection connection)
      : connection_(std::move(connection)) {}

  const OperatorConnection connection_;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_TRACED_PROCESS_H_
