#include "cli/commands/command.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/print.h"
#include "base/resource_limits.h"
#include "cli/main.h"
#include "config/nearest_name.h"
#include "process/exit_code.h"

namespace paramd {

const std::vector<Command>& Commands() {
  static const auto* commands = new std::vector<Command>{
      {"run", "one process of a cluster, or the whole job in this one",
       RunCommand, /*prints_progress=*/true},
      {"local", "a whole cluster of processes on this machine", LocalCommand,
       /*prints_progress=*/true},
      {"checkpoint list", "the checkpoints of a run", CheckpointListCommand},
      {"checkpoint inspect", "what a checkpoint contains",
       CheckpointInspectCommand},
      {"checkpoint verify", "whether checkpoints are what was written",
       CheckpointVerifyCommand},
      {"checkpoint diff", "how far two checkpoints are apart",
       CheckpointDiffCommand},
      {"checkpoint export", "a checkpoint for other programs",
       CheckpointExportCommand},
      {"checkpoint now", "has a running job write one now",
       CheckpointNowCommand},
      {"config check", "what is wrong with a job file and the cluster",
       ConfigCheckCommand},
      {"config print", "the values in effect, and where each came from",
       ConfigPrintCommand},
      {"model print", "layers, shapes, parameters and costs of the job's model",
       ModelPrintCommand},
      {"plan", "how to cut the job's model into stages, and what that gains",
       PlanCommand},
      {"input bench", "how fast the job's input is, and which stage limits",
       InputBenchCommand},
      {"input convert",
       "what a job reads becomes records, which are read faster",
       InputConvertCommand},
      {"evaluate", "loss and metrics of a checkpoint on the test set",
       EvaluateCommand},
      {"predict", "what a checkpoint's model predicts for the test set",
       PredictCommand},
      {"label", "a checkpoint's model labels examples to train another on",
       LabelCommand},
      {"quantize", "a checkpoint of fewer bits, to predict with",
       QuantizeCommand},
      {"shrink", "a checkpoint without pruned channels, of a smaller model",
       ShrinkCommand},
      {"status", "a running cluster: who, where, how far, who waits for whom",
       StatusCommand},
      {"top", "a running cluster, watched on the whole terminal", TopCommand},
      {"set", "changes a setting of a running job", SetCommand},
      {"drain", "has a ps hand over what it holds, and end", DrainCommand},
      {"scale", "has fewer or more ps hold a running job's variables",
       ScaleCommand},
      {"stop", "stops a running job, with a last checkpoint", StopCommand},
      {"profile", "what a running process spends its processors' time on",
       ProfileCommand},
      {"trace", "what all processes of a running job do when, in one picture",
       TraceCommand},
      {"tls init", "keys and certificates for the processes of a job",
       TlsInitCommand},
      {"tls renew", "new certificates for those keys", TlsRenewCommand},
      {"completion", "completes commands and flags in bash or zsh",
       CompletionCommand},
      {"version", "version, commit and GPUs", VersionCommand},
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

// The commands of a group: "checkpoint list" and its like. Empty: it is none.
std::string HelpOfGroup(const std::string& group) {
  std::string help;
  for (const Command& command : Commands()) {
    if (!absl::StartsWith(command.name, group + " ")) continue;
    absl::StrAppendFormat(&help, "  %-20s %s\n", command.name,
                          command.sentence);
  }
  if (help.empty()) return help;
  return absl::StrCat("usage: paramd ", group, " COMMAND [flags]\n\n", help,
                      "\n'paramd ", group, " COMMAND --help' explains one.\n");
}

bool AsksForHelp(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help";
}

// "help run" means "run --help", "--version" the command.
std::vector<std::string> Canonical(std::vector<std::string> words) {
  if (words.size() > 1 && AsksForHelp(words[0])) {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (!words.empty() && words[0] == "--version") words[0] = "version";
  return words;
}

// A result that nobody gets, as on a full disk, is none.
int Finish(const Command& command, int exit_code) {
  const bool is_written = std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (is_written || command.prints_progress) return exit_code;
  Print(absl::StrCat("paramd: the output of '", command.name,
                     "' cannot be written\n"),
        stderr);
  std::clearerr(stdout);  // Said once.
  return exit_code == kExitFinished ? kExitFailed : exit_code;
}

int Unknown(const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const Command& command : Commands()) known.push_back(command.name);
  const std::string first_two = absl::StrJoin(
      words.begin(), words.begin() + (words.size() > 1 ? 2 : 1), " ");
  std::string nearest = NearestName(words[0], known);
  if (nearest.empty()) nearest = NearestName(first_two, known);
  Print(absl::StrCat("paramd: unknown command '", words[0], "'",
                     nearest.empty()
                         ? "; 'paramd --help' lists all"
                         : absl::StrCat("; did you mean '", nearest, "'?"),
                     "\n"),
        stderr);
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
  Print(flags->Help());
  return Finish({"--help", "", nullptr}, kExitFinished);
}

int Dispatch(absl::Span<char* const> words, const ModelFactory& models) {
  const std::vector<std::string> given =
      Canonical({words.begin() + 1, words.end()});
  if (given.empty() || AsksForHelp(given[0])) {
    Print(Help(), given.empty() ? stderr : stdout);
    return Finish({"--help", "", nullptr},
                  given.empty() ? kExitBadConfiguration : kExitFinished);
  }
  for (const Command& command : Commands()) {
    const std::vector<std::string> name = absl::StrSplit(command.name, ' ');
    if (given.size() >= name.size() &&
        std::equal(name.begin(), name.end(), given.begin())) {
      return Finish(
          command,
          command.run(
              {words[0], {given.begin() + name.size(), given.end()}, models}));
    }
  }
  const bool is_alone = given.size() == 1;
  const std::string group = HelpOfGroup(given[0]);
  if (group.empty() || (!is_alone && !AsksForHelp(given[1]))) {
    return Unknown(given);
  }
  Print(group, is_alone ? stderr : stdout);
  return Finish({"--help", "", nullptr},
                is_alone ? kExitBadConfiguration : kExitFinished);
}

int Main(int argc, char** argv, const ModelFactory& models) {
  OpenStandardDescriptors();
  EndWithASentence(kExitBadConfiguration, kExitFailed);
  return Dispatch({argv, static_cast<size_t>(argc)}, models);
}

}  // namespace paramd
