#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/operator_client.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Where the chief is called: over its socket, or with TLS.
struct Chief {
  std::string run_dir;
  std::string address;
  std::string tls_dir;
};

absl::StatusOr<v1::SetReply> Call(const Chief& chief,
                                  const v1::SetRequest& request,
                                  absl::Duration timeout) {
  if (chief.address.empty() != chief.tls_dir.empty()) {
    return absl::InvalidArgumentError(
        "--chief and --tls_dir belong together: the chief's address, and the "
        "operator's certificate");
  }
  if (!chief.address.empty()) {
    ASSIGN_OR_RETURN(const auto tls, OperatorTls(chief.tls_dir));
    return CallSetAt(chief.address, *tls, request, timeout);
  }
  std::string socket = ChiefSocket(chief.run_dir);
  if (chief.run_dir.empty()) {
    ASSIGN_OR_RETURN(socket, OnlyChiefSocket("runs"));
  }
  return CallSet(socket, request, timeout);
}

// Sets what `setting`, "key=value", says. The sentence about it.
absl::StatusOr<std::string> Set(const std::string& setting, const Chief& chief,
                                absl::Duration timeout) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(setting, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("SETTING: '", setting,
                     "' is not key=value, as in staleness=8"));
  }
  v1::SetRequest request;
  request.set_key(parts.first);
  request.set_value(parts.second);
  ASSIGN_OR_RETURN(const v1::SetReply reply,
                   Call(chief, request, timeout));
  return absl::StrCat(parts.first, " is ", parts.second,
                      " as of configuration ",
                      VersionName(reply.configuration()), "\n");
}

}  // namespace

int SetCommand(const Invocation& invocation) {
  Chief chief;
  int timeout_ms = 60000;
  Flags flags("set", "SETTING [flags]",
              "Changes a setting of a job while it runs: staleness=K, "
              "staleness=async or\nstaleness=sync. The chief logs it before "
              "anybody is told, and keeps it over a\nrestart. To and from sync "
              "it first lets workers finish their push, or the servers\ntheir "
              "step, and answers then. To be run where the chief runs, by its "
              "user, or with an\noperator's certificate. Exits\n138 if the chief can't be reached.");
  flags.AllowArguments(1, 1, "SETTING, such as staleness=8");
  flags.AddText("run_dir", "DIR",
                "directory of the run; empty: the one run under runs/ whose "
                "chief listens",
                &chief.run_dir);
  flags.AddText("chief", "HOST:PORT",
                "from elsewhere: the chief's address; with --tls_dir",
                &chief.address);
  flags.AddText("tls_dir", "DIR", kAskTlsDir, &chief.tls_dir);
  flags.AddCount("timeout_ms", "how long to wait for an answer", {1, 3600000},
                 &timeout_ms);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto said = Set(flags.arguments()[0], chief,
                        absl::Milliseconds(timeout_ms));
  PrintError(said.status());
  if (!said.ok()) return ExitCodeAtStart(said.status());
  std::fputs(said->c_str(), stdout);
  return kExitFinished;
}

}  // namespace paramd
