#ifndef PARAMD_CLIENT_OPERATOR_CONNECTION_H_
#define PARAMD_CLIENT_OPERATOR_CONNECTION_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/operator_calls.h"
#include "net/operator_socket.h"
#include "net/tls.h"

namespace paramd {

// A connection of an operator to a process.
struct OperatorConnection {
  std::string who = "the chief";      // For people.
  std::string where;                  // The same.
  std::string caller = "operator/0";  // As whom it calls.
  std::shared_ptr<const Tls> tls;
  std::unique_ptr<OperatorAddress> socket;  // Keeps its name valid.
  std::shared_ptr<grpc::Channel> channel;
};

// kNotFound if there is no socket. Nobody is called yet.
absl::StatusOr<OperatorConnection> ConnectToChief(const ChiefAddress& chief);
// The same to any process of the job.
absl::StatusOr<OperatorConnection> ConnectToAny(const ChiefAddress& process);

// What is said of a call that failed so: the process's own refusal, or
// kUnavailable with the reason if it had no answer of a process.
absl::Status Unreached(const OperatorConnection& process,
                       const absl::Status& status);

}  // namespace paramd

#endif  // PARAMD_CLIENT_OPERATOR_CONNECTION_H_
