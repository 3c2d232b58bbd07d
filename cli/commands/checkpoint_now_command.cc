#include <string>

#include "absl/strings/str_cat.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "process/exit_code.h"

namespace paramd {
namespace {

// The sentence about what was written.
absl::StatusOr<std::string> CheckpointNow(const ChiefFlags& flags) {
  ASSIGN_OR_RETURN(const ChiefAddress chief, flags.Find());
  ASSIGN_OR_RETURN(const v1::CheckpointReply reply,
                   CallCheckpoint(chief, flags.timeout()));
  return absl::StrCat("step ", reply.step(), ": ", EscapeLine(reply.path()),
                      "\n");
}

}  // namespace

int CheckpointNowCommand(const Invocation& invocation) {
  ChiefFlags chief;
  Flags flags("checkpoint now", "[ADDRESS | DIR] [flags]",
              "Has a running job write a checkpoint now, and waits until it is "
              "committed. It has\nall that was acknowledged before. Training "
              "goes on meanwhile. To be run where the\nchief runs, by its "
              "user, or with an operator's certificate. Exits 138 if the\n"
              "chief can't be reached or storage fails, and if it is not there "
              "in time: then it is\nwritten all the same.");
  flags.AllowArguments(0, 1,
                       "the address of any process (with --tls_dir), or the "
                       "directory of the run");
  chief.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  if (!flags.arguments().empty()) chief.place = flags.arguments()[0];
  const auto said = CheckpointNow(chief);
  PrintError(said.status());
  if (!said.ok()) return ExitCodeAtStart(said.status());
  Print(*said);
  return kExitFinished;
}

}  // namespace paramd
