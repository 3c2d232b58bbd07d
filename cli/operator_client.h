#ifndef PARAMD_CLI_OPERATOR_CLIENT_H_
#define PARAMD_CLI_OPERATOR_CLIENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/cluster.pb.h"

namespace paramd {

// Where the chief of the run in this directory takes operators' calls.
std::string ChiefSocket(const std::string& run_dir);

// The socket of the one run under `root` whose chief listens. kNotFound if
// there is none, kInvalidArgument, naming them, if there are several.
absl::StatusOr<std::string> OnlyChiefSocket(const std::string& root);

// Asks the chief behind `socket` to change a setting of its job, again where it
// says that this may help, for `timeout`. Errors: kNotFound if there is no
// socket; kUnavailable, naming it, if nobody answers there or the chief is still
// waiting for something; otherwise the chief's own.
absl::StatusOr<v1::SetReply> CallSet(const std::string& socket,
                                     const v1::SetRequest& request,
                                     absl::Duration timeout);

}  // namespace paramd

#endif  // PARAMD_CLI_OPERATOR_CLIENT_H_
