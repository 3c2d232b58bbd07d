#ifndef PARAMD_CLI_OPERATOR_CLIENT_H_
#define PARAMD_CLI_OPERATOR_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "net/tls.h"
#include "proto/paramd/v1/cluster.pb.h"

namespace paramd {

// What --tls_dir of a command that asks means.
inline constexpr char kAskTlsDir[] =
    "where processes speak TLS: the operator's certificate, of 'paramd tls "
    "init' or an operator-0 in it";

// Where the chief of the run in this directory takes operators' calls.
std::string ChiefSocket(const std::string& run_dir);

// The socket of the one run under `root` whose chief listens. kNotFound if
// there is none, kInvalidArgument, naming them, if there are several.
absl::StatusOr<std::string> OnlyChiefSocket(const std::string& root);

// The credentials in --tls_dir of a command that asks; null if it is empty.
absl::StatusOr<std::shared_ptr<const Tls>> OperatorTls(
    const std::string& directory);

// Asks the chief behind `socket` to change a setting of its job, again where it
// says that this may help, for `timeout`. Errors: kNotFound if there is no
// socket; kUnavailable, naming it, if nobody answers there or the chief is still
// waiting for something; otherwise the chief's own.
absl::StatusOr<v1::SetReply> CallSet(const std::string& socket,
                                     const v1::SetRequest& request,
                                     absl::Duration timeout);

// The same of the chief at `address`, host:port, which speaks TLS.
absl::StatusOr<v1::SetReply> CallSetAt(const std::string& address,
                                       const Tls& tls,
                                       const v1::SetRequest& request,
                                       absl::Duration timeout);

}  // namespace paramd

#endif  // PARAMD_CLI_OPERATOR_CLIENT_H_
