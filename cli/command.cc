#include "cli/command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "cli/exit_code.h"
#include "config/nearest_name.h"

namespace paramd {

const std::vector<Command>& Commands() {
  static const auto* commands = new std::vector<Command>{
      {"run", "one process of a cluster, or the whole job in this one",
       RunCommand},
      {"local", "a whole cluster of processes on this machine", LocalCommand},
      {"checkpoint list", "the checkpoints of a run", CheckpointListCommand},
      {"checkpoint inspect", "what a checkpoint contains",
       CheckpointInspectCommand},
      {"checkpoint verify", "whether checkpoints are what was written",
       CheckpointVerifyCommand},
      {"checkpoint diff", "how far two checkpoints are apart",
       CheckpointDiffCommand},
      {"checkpoint export", "a checkpoint for other programs",
       CheckpointExportCommand},
      {"config check", "what is wrong with a job file and the cluster",
       ConfigCheckCommand},
      {"config print", "what holds, and where each value came from",
       ConfigPrintCommand},
      {"status", "a running cluster: who, where, how far, who waits for whom",
       StatusCommand},
      {"set", "a setting of a running job is changed", SetCommand},
      {"completion", "completes commands and flags in bash or zsh",
       CompletionCommand},
      {"man", "the manual page", ManCommand},
      {"version", "version and commit", VersionCommand},
  };
  return *commands;
}

std::vector<CommandHelp> DescribeCommands() {
  std::vector<CommandHelp> all;
  for (const Command& command : Commands()) {
    CommandHelp help;
    help.name = command.name;
    help.sentence = command.sentence;
    Invocation invocation;
    invocation.describe = [&help](const Flags& flags) {
      help.usage = flags.usage();
      help.description = flags.sentence();
      help.flags = flags.infos();
    };
    command.run(invocation);
    all.push_back(std::move(help));
  }
  return all;
}

namespace {

std::string Help() {
  std::string help =
      "usage: paramd COMMAND [flags]\n\n"
      "Trains models on parameter servers and workers.\n\ncommands:\n";
  for (const Command& command : Commands()) {
    absl::StrAppendFormat(&help, "  %-20s %s\n", command.name,
                          command.sentence);
  }
  help.append("\n'paramd COMMAND --help' explains one.\n");
  return help;
}

int Unknown(const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const Command& command : Commands()) known.push_back(command.name);
  const std::string first_two = absl::StrJoin(
      words.begin(), words.begin() + (words.size() > 1 ? 2 : 1), " ");
  std::string nearest = NearestName(words[0], known);
  if (nearest.empty()) nearest = NearestName(first_two, known);
  std::fprintf(stderr, "paramd: unknown command '%s'%s\n", words[0].c_str(),
               nearest.empty()
                   ? "; 'paramd --help' lists all"
                   : absl::StrCat("; did you mean '", nearest, "'?").c_str());
  return kExitBadConfiguration;
}

}  // namespace

absl::optional<int> ParseFlags(const Invocation& invocation, Flags* flags,
                               absl::Status* wrong) {
  if (invocation.describe != nullptr) {
    invocation.describe(*flags);
    return kExitFinished;
  }
  const absl::Status parsed = flags->Parse(invocation.arguments);
  PrintError(parsed);
  if (wrong != nullptr) *wrong = parsed;
  if (!parsed.ok()) return kExitBadConfiguration;
  if (!flags->help_wanted()) return absl::nullopt;
  std::fputs(flags->Help().c_str(), stdout);
  return kExitFinished;
}

int Dispatch(absl::Span<char* const> words) {
  const std::vector<std::string> given(words.begin() + 1, words.end());
  if (given.empty() || given[0] == "--help" || given[0] == "-h" ||
      given[0] == "help") {
    std::fputs(Help().c_str(), given.empty() ? stderr : stdout);
    return given.empty() ? kExitBadConfiguration : kExitFinished;
  }
  for (const Command& command : Commands()) {
    const std::vector<std::string> name = absl::StrSplit(command.name, ' ');
    if (given.size() >= name.size() &&
        std::equal(name.begin(), name.end(), given.begin())) {
      return command.run(
          {words[0], {given.begin() + name.size(), given.end()}});
    }
  }
  return Unknown(given);
}

}  // namespace paramd
