#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "process/exit_code.h"
#include "process/incarnation.h"

namespace paramd {
namespace {

// Of "ps-2".
absl::StatusOr<uint32_t> PsOf(absl::string_view name) {
  absl::string_view digits = name;
  uint32_t ps = 0;
  if (absl::ConsumePrefix(&digits, "ps-") && absl::SimpleAtoi(digits, &ps) &&
      digits == absl::StrCat(ps)) {
    return ps;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("PS: '", name, "' is not the name of a ps, as ps-2 is"));
}

void SayDrainWait(const v1::DrainReply& reply) {
  if (reply.waiting_for().empty()) return;
  Print(absl::StrCat("waiting for ", EscapeLine(reply.waiting_for()), "\n"),
        stderr);
}

absl::StatusOr<std::string> Drain(const std::string& name,
                                  const ChiefFlags& flags) {
  ASSIGN_OR_RETURN(const uint32_t ps, PsOf(name));
  ASSIGN_OR_RETURN(const ChiefAddress chief, flags.Find());
  RETURN_IF_ERROR(
      CallDrain(chief, ps, DrawIncarnation(), flags.timeout(), SayDrainWait));
  return absl::StrCat(name,
                      " is drained: all that it held goes on in other "
                      "processes, and it ends\n");
}

}  // namespace

int DrainCommand(const Invocation& invocation) {
  ChiefFlags chief;
  Flags flags(
      "drain", "PS [ADDRESS | DIR] [flags]",
      "Has a ps hand its servers over to their backups, and end with 0: "
      "nothing is lost, and\ntraining goes on. Needs replication: 2, and "
      "that each of its servers has a backup that\nholds everything. When "
      "the ps is started again, it comes back as a backup. To be run\nwhere "
      "the chief runs, by its user, or with an operator's certificate. Exits "
      "138 if the\nchief can't be reached, if draining takes longer than "
      "--timeout_ms (it goes on then), or if\na backup was lost meanwhile and "
      "the ps has to be started again.");
  flags.AllowArguments(1, 2,
                       "PS, such as ps-2, and the address of any process (with "
                       "--tls_dir), or the directory of the run");
  chief.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  if (flags.arguments().size() > 1) chief.place = flags.arguments()[1];
  const absl::StatusOr<std::string> said = Drain(flags.arguments()[0], chief);
  PrintError(said.status());
  if (!said.ok()) return ExitCodeAtStart(said.status());
  Print(*said);
  return kExitFinished;
}

}  // namespace paramd
