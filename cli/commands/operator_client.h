#ifndef PARAMD_CLI_COMMANDS_OPERATOR_CLIENT_H_
#define PARAMD_CLI_COMMANDS_OPERATOR_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/operator_calls.h"
#include "net/tls.h"
#include "process/flags.h"

namespace paramd {

// What --tls_dir of a command that asks means.
inline constexpr char kAskTlsDir[] =
    "where processes speak TLS: a reader's or operator's certificate, or what "
    "'paramd tls init' made, and operator-0 of it";

// The socket of the one run under `root` whose chief listens. kNotFound if
// there is none, kInvalidArgument, naming them, if there are several.
absl::StatusOr<std::string> OnlyChiefSocket(const std::string& root);

// The credentials in --tls_dir of a command that asks; null if it is empty.
absl::StatusOr<std::shared_ptr<const Tls>> OperatorTls(
    const std::string& directory);

// The flags by which a command that changes something finds the chief: over its
// socket, or with TLS; and the argument that may stand for one of them.
struct ChiefFlags {
  // The address of any process (with --tls_dir), or the directory of the run.
  // Empty: flags say it.
  std::string place;
  std::string run_dir;
  std::string address;
  std::string tls_dir;
  int timeout_ms = 60000;

  void AddTo(Flags* flags);
  // What they say. An address may be that of any process, which knows the
  // chief's. kInvalidArgument if they do not fit together; as
  // OnlyChiefSocket if they say nothing.
  absl::StatusOr<ChiefAddress> Find() const;
  absl::Duration timeout() const { return absl::Milliseconds(timeout_ms); }
};

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_OPERATOR_CLIENT_H_
