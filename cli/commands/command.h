#ifndef PARAMD_CLI_COMMANDS_COMMAND_H_
#define PARAMD_CLI_COMMANDS_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "cli/commands/command_help.h"
#include "process/flags.h"
#include "worker/model_factory.h"

namespace paramd {

// How a subcommand was called.
struct Invocation {
  std::string program;                 // argv[0], as it was typed.
  std::vector<std::string> arguments;  // After the subcommand's name.
  // What makes the job's model.
  ModelFactory models = BuiltInModels();
  // If set, nothing is done but that ParseFlags hands over the flags.
  std::function<void(const Flags& flags)> describe = nullptr;
};

// A subcommand of paramd. `run` prints what it has to say and returns the
// process's exit code.
struct Command {
  std::string name;  // "local", "checkpoint inspect"
  std::string sentence;
  int (*run)(const Invocation& invocation);
  // What it prints is how a job goes. The exit code is that of the job, whoever
  // reads along; else a command whose output cannot be written has failed.
  bool prints_progress = false;
};

// Each stands in a file of its own.
int RunCommand(const Invocation& invocation);
int LocalCommand(const Invocation& invocation);
int CheckpointListCommand(const Invocation& invocation);
int CheckpointInspectCommand(const Invocation& invocation);
int CheckpointNowCommand(const Invocation& invocation);
int CheckpointVerifyCommand(const Invocation& invocation);
int CheckpointDiffCommand(const Invocation& invocation);
int CheckpointExportCommand(const Invocation& invocation);
int ConfigCheckCommand(const Invocation& invocation);
int ConfigPrintCommand(const Invocation& invocation);
int ModelPrintCommand(const Invocation& invocation);
int PlanCommand(const Invocation& invocation);
int InputBenchCommand(const Invocation& invocation);
int InputConvertCommand(const Invocation& invocation);
int EvaluateCommand(const Invocation& invocation);
int PredictCommand(const Invocation& invocation);
int LabelCommand(const Invocation& invocation);
int QuantizeCommand(const Invocation& invocation);
int ShrinkCommand(const Invocation& invocation);
int StatusCommand(const Invocation& invocation);
int TopCommand(const Invocation& invocation);
int SetCommand(const Invocation& invocation);
int DrainCommand(const Invocation& invocation);
int ScaleCommand(const Invocation& invocation);
int StopCommand(const Invocation& invocation);
int ProfileCommand(const Invocation& invocation);
int TraceCommand(const Invocation& invocation);
int CompletionCommand(const Invocation& invocation);
int TlsInitCommand(const Invocation& invocation);
int TlsRenewCommand(const Invocation& invocation);
int VersionCommand(const Invocation& invocation);

// All of them, in the order in which people are told.
const std::vector<Command>& Commands();

// What each says about itself, for what is made from it.
std::vector<CommandHelp> DescribeCommands();

// Parses what follows the subcommand's name. Nullopt: go on. Else the process's
// exit code: --help was shown, or what is wrong was said; `wrong`, if given, is
// set to that.
absl::optional<int> ParseFlags(const Invocation& invocation, Flags* flags,
                               absl::Status* wrong = nullptr);

// Finds the subcommand that `words`, argv, name and runs it with these models.
// Without one, or with --help: shows all, or those of a group ("checkpoint").
// An unknown one is named with its nearest, exit 2.
int Dispatch(absl::Span<char* const> words, const ModelFactory& models);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_COMMAND_H_
