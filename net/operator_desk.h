#ifndef PARAMD_NET_OPERATOR_DESK_H_
#define PARAMD_NET_OPERATOR_DESK_H_

#include <memory>
#include <thread>

#include "absl/status/statusor.h"

#include "net/grpc_runtime.h"
#include "net/runtime.h"

namespace paramd {

// Where operators call a process whose cores have no transport of their own: a
// whole job in one process. Takes their calls at the process's Unix socket, on
// a thread of its own, and asks the coordinator among those cores.
//
// Thread safety: used on one thread. The runtime behind it outlives it.
class OperatorDesk {
 public:
  // Listens at `options.operator_socket`, and nowhere else. Errors as of
  // MakeGrpcRuntime.
  static absl::StatusOr<std::unique_ptr<OperatorDesk>> Open(
      GrpcRuntimeOptions options, Runtime* behind);
  // Answers that were given before are sent first.
  ~OperatorDesk();

 private:
  class Front;

  OperatorDesk(std::unique_ptr<Runtime> runtime, Runtime* behind);

  const std::unique_ptr<Front> front_;
  const std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_NET_OPERATOR_DESK_H_
