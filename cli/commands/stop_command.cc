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

// What is waited for, in one line.
void SayWait(const v1::StopJobReply& reply) {
  std::string line;
  if (reply.already()) line = "the job is being stopped already";
  if (!reply.waiting_for().empty()) {
    absl::StrAppend(&line, line.empty() ? "" : "; ", "waiting for ",
                    EscapeLine(reply.waiting_for()));
  }
  if (!line.empty()) Print(absl::StrCat(line, "\n"), stderr);
}

absl::StatusOr<std::string> Stop(const ChiefFlags& flags, bool now) {
  ASSIGN_OR_RETURN(const ChiefAddress chief, flags.Find());
  ASSIGN_OR_RETURN(
      const StoppedByOperator stopped,
      CallStop(chief, now, DrawIncarnation(), flags.timeout(), SayWait));
  return stopped.finished
             ? std::string("the job has finished; nothing is stopped\n")
             : absl::StrCat(EscapeLine(stopped.sentence), "\n");
}

}  // namespace

int StopCommand(const Invocation& invocation) {
  ChiefFlags chief;
  bool now = false;
  Flags flags("stop", "[ADDRESS | DIR] [flags]",
              "Stops a running job: no new work, what is under way is "
              "finished, a last checkpoint\nis written, and every process of "
              "the job ends with 0. A later start of the same run\ngoes on "
              "from that checkpoint. Waits until the chief has ended. To be "
              "run where the\nchief runs, by its user, or with an operator's "
              "certificate. Exits 138 if the chief\ncan't be reached, and if "
              "it is not stopped in time: then it is stopped all the same.");
  flags.AllowArguments(0, 1,
                       "the address of any process (with --tls_dir), or the "
                       "directory of the run");
  flags.AddSwitch("now",
                  "without the last checkpoint: what came after the newest one "
                  "is given up",
                  &now);
  chief.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  if (!flags.arguments().empty()) chief.place = flags.arguments()[0];
  const absl::StatusOr<std::string> said = Stop(chief, now);
  PrintError(said.status());
  if (!said.ok()) return ExitCodeAtStart(said.status());
  Print(*said);
  return kExitFinished;
}

}  // namespace paramd
