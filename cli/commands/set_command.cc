#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "process/exit_code.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Sets what `setting`, "key=value", says. The sentence about it.
absl::StatusOr<std::string> Set(const std::string& setting,
                                const ChiefFlags& flags) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(setting, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SETTING: '", setting, "' is not key=value, as in staleness=8"));
  }
  v1::SetRequest request;
  request.set_key(parts.first);
  request.set_value(parts.second);
  ASSIGN_OR_RETURN(const ChiefAddress chief, flags.Find());
  ASSIGN_OR_RETURN(const v1::SetReply reply,
                   CallSet(chief, request, flags.timeout()));
  // A chief of an earlier version does not say what it was.
  const std::string was =
      reply.old_value().empty()
          ? ""
          : absl::StrCat(", and was ", EscapeLine(reply.old_value()));
  return absl::StrCat(
      parts.first, " is ",
      EscapeLine(reply.value().empty() ? parts.second : reply.value()),
      " as of configuration ", VersionName(reply.configuration()), was, "\n");
}

}  // namespace

int SetCommand(const Invocation& invocation) {
  ChiefFlags chief;
  Flags flags(
      "set", "SETTING [ADDRESS | DIR] [flags]",
      "Changes a setting of a job while it runs: staleness=K, "
      "staleness=async,\nstaleness=sync; learning_rate_scale=X, which "
      "every learning rate is multiplied by\nfrom then on; "
      "checkpoint.every_steps=N or checkpoint.every_seconds=N;\n"
      "log_level=LEVEL, of every process; rebalance=true or "
      "rebalance=false. The chief\nlogs it before it takes effect, and "
      "keeps it over a restart. To and from sync it\nfirst lets workers "
      "finish their push, or the servers their step, and answers\nthen. "
      "To be run where the chief runs, by its user, or with an "
      "operator's\ncertificate. Exits 138 if the chief can't be "
      "reached.");
  flags.AllowArguments(1, 2,
                       "SETTING, such as staleness=8, and the address of any "
                       "process (with --tls_dir), or the directory of the run");
  chief.AddTo(&flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  if (flags.arguments().size() > 1) chief.place = flags.arguments()[1];
  const auto said = Set(flags.arguments()[0], chief);
  PrintError(said.status());
  if (!said.ok()) return ExitCodeAtStart(said.status());
  Print(*said);
  return kExitFinished;
}

}  // namespace paramd
