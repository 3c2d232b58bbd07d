#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "process/exit_code.h"
#include "process/incarnation.h"

namespace paramd {
namespace {

constexpr int kMostServers = 1000000;

void SayScaleWait(const v1::ScaleReply& reply) {
  if (reply.waiting_for().empty()) return;
  Print(absl::StrCat("waiting for ", EscapeLine(reply.waiting_for()), "\n"),
        stderr);
}

absl::StatusOr<std::string> ScaleJob(int servers, const ChiefFlags& flags) {
  if (servers == 0) {
    return absl::InvalidArgumentError(
        "--servers: is missing; give how many ps hold everything");
  }
  ASSIGN_OR_RETURN(const ChiefAddress chief, flags.Find());
  RETURN_IF_ERROR(CallScale(chief, static_cast<uint32_t>(servers),
                            DrawIncarnation(), flags.timeout(), SayScaleWait));
  return absl::StrCat("the first ", servers,
                      " ps hold everything: the job is scaled\n");
}

}  // namespace

int ScaleCommand(const Invocation& invocation) {
  ChiefFlags chief;
  int servers = 0;
  Flags flags(
      "scale", "[ADDRESS | DIR] --servers N [flags]",
      "Has the first N ps of a running job hold everything, while it trains: "
      "no push fails, and\nnothing is lost. Those behind them end with 0; one "
      "that is started again, and one that\ncomes later, holds nothing until "
      "the job is scaled up. Needs replication: 2 and scalable.\nTo be run "
      "where the chief runs, by its user, or with an operator's certificate. "
      "Exits 138\nif the chief can't be reached, or if it takes longer than "
      "--timeout_ms: it goes on then.");
  flags.AllowArguments(0, 1,
                       "the address of any process (with --tls_dir), or the "
                       "directory of the run");
  flags.AddCount("servers",
                 "how many ps of those that the cluster names, the first ones",
                 {1, kMostServers}, &servers);
  chief.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  if (!flags.arguments().empty()) chief.place = flags.arguments()[0];
  const absl::StatusOr<std::string> said = ScaleJob(servers, chief);
  PrintError(said.status());
  if (!said.ok()) return ExitCodeAtStart(said.status());
  Print(*said);
  return kExitFinished;
}

}  // namespace paramd
