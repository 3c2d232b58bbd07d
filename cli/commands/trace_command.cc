#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "cli/commands/output_file.h"
#include "process/exit_code.h"
#include "process/incarnation.h"
#include "process/trace/cluster_trace.h"
#include "process/trace/trace_collector.h"

namespace paramd {
namespace {

struct TraceFlags {
  ChiefFlags chief;
  std::string output = "trace.json";
  int seconds = 5;
};

// The sentence about it.
std::string DescribeTrace(const ClusterTrace& trace, const TraceFlags& flags) {
  std::vector<std::string> names;
  for (const ProcessTrace& process : trace.processes) {
    names.push_back(process.process);
  }
  std::string text = absl::StrFormat(
      "%s: %d events of %s in %d s; their clocks agree within %.3f ms",
      flags.output, EventsIn(trace), absl::StrJoin(names, ", "), flags.seconds,
      absl::ToDoubleMilliseconds(ErrorOf(trace)));
  if (LeftOutOf(trace) > 0) {
    absl::StrAppend(&text, "; ", LeftOutOf(trace),
                    " more were left out: ask for fewer seconds");
  }
  absl::StrAppend(
      &text, "\nopen it at https://ui.perfetto.dev, or in chrome://tracing\n");
  return text;
}

absl::StatusOr<ClusterTrace> WriteTraceOf(const TraceFlags& flags) {
  ASSIGN_OR_RETURN(const ChiefAddress chief, flags.chief.Find());
  RETURN_IF_ERROR(CheckOutputFile("--to", flags.output));
  TraceOptions options;
  options.duration = absl::Seconds(flags.seconds);
  options.nonce = DrawIncarnation();
  options.timeout = flags.chief.timeout();
  ASSIGN_OR_RETURN(ClusterTrace trace, CollectTrace(chief, options));
  RETURN_IF_ERROR(WriteOutputFile("--to", flags.output, TraceJson(trace)));
  return trace;
}

}  // namespace

int TraceCommand(const Invocation& invocation) {
  TraceFlags options;
  options.chief.timeout_ms = 10000;
  Flags flags(
      "trace", "[ADDRESS | DIR] [flags]",
      "Has every worker and server of a running job record what it does for "
      "some seconds, and\nwrites one trace of them all, by one clock, with "
      "each push followed from its worker to\nthe blocks of the servers and "
      "back. The job goes on meanwhile. To be run where the\nprocesses run, "
      "by their user, or with an operator's certificate. Exits 138 if a "
      "process\ncan't be reached, or ended meanwhile: it is named, and the "
      "others' trace is written.");
  flags.AllowArguments(0, 1,
                       "the address of any process (with --tls_dir), or the "
                       "directory of the run");
  options.chief.AddTo(&flags);
  flags.AddText("to", "FILE", "where it is written, in JSON", &options.output);
  flags.AddCount("seconds", "how long to record", {1, 60}, &options.seconds);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  if (!flags.arguments().empty()) options.chief.place = flags.arguments()[0];
  const absl::StatusOr<ClusterTrace> trace = WriteTraceOf(options);
  PrintError(trace.status());
  if (!trace.ok()) return ExitCodeAtStart(trace.status());
  for (const std::string& missing : trace->missing) {
    PrintError(absl::UnavailableError(missing));
  }
  Print(DescribeTrace(*trace, options));
  return trace->missing.empty() ? kExitFinished : kExitRetry;
}

}  // namespace paramd
