#include "client/operator_connection.h"

#include <grpcpp/security/credentials.h>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "net/certified_name.h"
#include "net/outside_channel.h"
#include "net/unreached.h"
#include "proto/refusal.h"

namespace paramd {

absl::StatusOr<OperatorConnection> ConnectToChief(const ChiefAddress& chief) {
  OperatorConnection connection;
  if (!chief.socket.empty()) {
    connection.where = chief.socket;
    ASSIGN_OR_RETURN(connection.socket, OperatorAddress::Of(chief.socket));
    connection.channel = OutsideChannel(connection.socket->target(),
                                        grpc::InsecureChannelCredentials());
    return connection;
  }
  const CertifiedName name = {chief.tls->self().job,
                              CertifiedName::Role::kWorker, 0};
  connection.where = chief.address;
  connection.tls = chief.tls;
  const CertifiedName& self = chief.tls->self();
  if (self.role == CertifiedName::Role::kOperator) {
    connection.caller = self.RoleAndIndex();
  }
  connection.channel = OutsideChannel(OutsideTarget(chief.address),
                                      chief.tls->CredentialsFor(name));
  return connection;
}

absl::StatusOr<OperatorConnection> ConnectToAny(const ChiefAddress& process) {
  ASSIGN_OR_RETURN(OperatorConnection connection, ConnectToChief(process));
  connection.who = "the process";
  if (process.tls == nullptr) return connection;
  connection.channel = OutsideChannel(OutsideTarget(process.address),
                                      process.tls->CredentialsForJob());
  return connection;
}

absl::Status Unreached(const OperatorConnection& chief,
                       const absl::Status& status) {
  if (RefusalOf(status).reason() != v1::Refusal::REASON_UNSPECIFIED) {
    return status;
  }
  std::string why = absl::IsDeadlineExceeded(status) ? "no answer in time" : "";
  if (why.empty() && chief.tls != nullptr) {
    why = chief.tls->WhyFailed(status.message());
  }
  if (why.empty()) why = WhyUnreached(status.message());
  return absl::UnavailableError(absl::StrCat(chief.who, " at '", chief.where,
                                             "' can't be reached: ", why));
}

}  // namespace paramd
