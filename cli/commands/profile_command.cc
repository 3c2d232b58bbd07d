#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "cli/commands/output_file.h"
#include "client/operator_calls.h"
#include "process/exit_code.h"
#include "process/incarnation.h"
#include "process/profile/flame_graph.h"

namespace paramd {
namespace {

constexpr size_t kHottest = 10;

struct ProfileOptions {
  std::string place;
  std::string tls_dir;
  std::string output;
  std::string format = "svg";
  int seconds = 10;
  int timeout_ms = 60000;
};

// Where the process takes operators' calls.
absl::StatusOr<ChiefAddress> AddressOf(const ProfileOptions& options) {
  ChiefAddress process;
  std::error_code error;
  if (std::filesystem::is_directory(options.place, error)) {
    process.socket = ChiefSocket(options.place);
  } else if (absl::EndsWith(options.place, ".sock")) {
    process.socket = options.place;
  } else if (absl::StrContains(options.place, ':')) {
    process.address = options.place;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", options.place,
        "' is neither the address of a process, as in 10.0.0.7:2222, nor its "
        "socket, as in runs/a/ps-0.sock, nor the directory of a run"));
  }
  if (process.address.empty() != options.tls_dir.empty()) {
    return absl::InvalidArgumentError(
        "an address and --tls_dir belong together: who calls from elsewhere "
        "shows an operator's certificate; on the process's machine name its "
        "socket, as in runs/a/ps-0.sock");
  }
  ASSIGN_OR_RETURN(process.tls, OperatorTls(options.tls_dir));
  return process;
}

// The sentence about it, and the functions that took most.
std::string Describe(const v1::ProfileReply& profile,
                     const ProfileOptions& options) {
  const uint64_t samples = SamplesIn(profile);
  std::string text = absl::StrFormat(
      "%s: %.2f s of processors' time in %d s, %d samples",
      EscapeLine(profile.process()),
      static_cast<double>(profile.cpu_us()) / 1e6, options.seconds, samples);
  if (profile.lost() > 0) {
    absl::StrAppend(&text, ", ", profile.lost(), " more were lost");
  }
  absl::StrAppend(&text, ": ", options.output, "\n");
  for (const auto& [name, own] : HottestFunctions(profile, kHottest)) {
    absl::StrAppendFormat(
        &text, "%6.1f %%  %s\n",
        100.0 * static_cast<double>(own) / static_cast<double>(samples),
        EscapeLine(name));
  }
  return text;
}

absl::StatusOr<std::string> Profile(ProfileOptions options) {
  if (options.format != "svg" && options.format != "folded") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is svg or folded, not '", options.format, "'"));
  }
  if (options.output.empty()) {
    options.output = absl::StrCat("profile.", options.format);
  }
  RETURN_IF_ERROR(CheckOutputFile("--output", options.output));
  ASSIGN_OR_RETURN(const ChiefAddress process, AddressOf(options));
  ASSIGN_OR_RETURN(
      const v1::ProfileReply profile,
      CallProfile(process, absl::Seconds(options.seconds), DrawIncarnation(),
                  absl::Milliseconds(options.timeout_ms)));
  RETURN_IF_ERROR(CheckProfile(profile));
  RETURN_IF_ERROR(WriteOutputFile(
      "--output", options.output,
      options.format == "svg" ? FlameGraph(profile) : FoldedStacks(profile)));
  return Describe(profile, options);
}

}  // namespace

int ProfileCommand(const Invocation& invocation) {
  ProfileOptions options;
  Flags flags("profile", "ADDRESS | SOCKET | DIR [flags]",
              "Samples what a running process spends its processors' time on, "
              "a hundred times a\nsecond of that, and draws it as a flame "
              "graph. The process goes on meanwhile. To be\nrun where the "
              "process runs, by its user, or with an operator's certificate. "
              "Exits\n138 if the process can't be reached.");
  flags.AllowArguments(1, 1,
                       "the process's address (with --tls_dir) or socket, "
                       "RUN/ps-0.sock; of a run's directory, its chief");
  flags.AddText("tls_dir", "DIR", kAskTlsDir, &options.tls_dir);
  flags.AddText("output", "FILE",
                "where it is written; empty: profile.svg, or profile.folded",
                &options.output);
  flags.AddText("format", "svg|folded",
                "svg: a flame graph, for a browser; folded: a line for each "
                "stack, for other tools",
                &options.format);
  flags.AddCount("seconds", "how long to sample", {1, 300}, &options.seconds);
  flags.AddCount("timeout_ms",
                 "how long to wait for an answer, beyond --seconds",
                 {1, 3600000}, &options.timeout_ms);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  options.place = flags.arguments()[0];
  const absl::StatusOr<std::string> said = Profile(options);
  PrintError(said.status());
  if (!said.ok()) return ExitCodeAtStart(said.status());
  Print(*said);
  return kExitFinished;
}

}  // namespace paramd
