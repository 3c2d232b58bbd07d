#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/print.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "config/task_address.h"
#include "process/exit_code.h"
#include "process/observe/cluster_report.h"
#include "process/observe/status_client.h"
#include "process/observe/status_watch.h"
#include "process/terminal/console.h"
#include "process/terminal/full_screen.h"
#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

constexpr int kWatchSeconds = 2;

struct StatusOptions {
  std::string address;
  std::string format = "text";
  int timeout_ms = 5000;
  int watch_seconds = 0;  // 0: it is printed once.
  int give_up_seconds = 60;
};

absl::Status Check(const StatusOptions& options) {
  const auto wrong = WrongAddress(options.address, "ADDRESS");
  if (wrong.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("ADDRESS: ", *wrong));
  }
  if (options.format != "text" && options.format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is text or json, not '", options.format, "'"));
  }
  if (options.watch_seconds > 0 && options.format != "text") {
    return absl::InvalidArgumentError(
        "--watch repeats the text; leave it out for --format json, which is "
        "printed once");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ClusterReport> Report(
    const StatusOptions& options, const std::shared_ptr<const Tls>& tls) {
  return MakeClusterReport(options.address,
                           [&](const std::vector<std::string>& addresses) {
                             return StatusClient(addresses, tls)
                                 .Ask(absl::Milliseconds(options.timeout_ms),
                                      StatusClient::Patience::kFailAtOnce);
                           });
}

int PrintOnce(const StatusOptions& options, const v1::ClusterReport& report) {
  const auto text = options.format == "json"
                        ? ReportJson(report)
                        : absl::StatusOr<std::string>(RenderReport(report));
  PrintError(text.status());
  if (!text.ok()) return kExitFailed;
  Print(*text);
  return kExitFinished;
}

std::string TimeLine() {
  return absl::FormatTime("---- %Y-%m-%d %H:%M:%S ----\n", absl::Now(),
                          absl::LocalTimeZone());
}

// A signal ends it as it ends any command: the terminal is as it was, below the
// newest text.
int Watch(const StatusOptions& options, const std::shared_ptr<const Tls>& tls,
          absl::StatusOr<v1::ClusterReport> report) {
  Console console(stdout, stderr, StdoutIsTerminal());
  StatusWatch watch(absl::Seconds(options.give_up_seconds));
  std::string text;
  Time asked = MonotonicNow();
  while (true) {
    watch.Take(report, MonotonicNow());
    text = absl::StrCat(TimeLine(), watch.TextAt(MonotonicNow()));
    if (!console.in_place()) console.Print(text);
    if (watch.end().has_value() || std::ferror(stdout)) break;
    if (console.in_place()) {
      const FullScreen::Size size = FullScreen::SizeNow();
      // The cursor stands in a row of its own.
      console.ShowBlock(
          CutLines(text, size.columns, std::max(1, size.rows - 1)));
    }
    absl::SleepFor(asked + absl::Seconds(options.watch_seconds) -
                   MonotonicNow());
    asked = MonotonicNow();
    report = Report(options, tls);
  }
  console.ShowBlock("");
  if (console.in_place()) console.Print(text);
  const absl::Status end = watch.end().value_or(absl::OkStatus());
  PrintError(end);
  return ExitCodeAtStart(end);
}

void AddFlags(StatusOptions* options, std::string* tls_dir, Flags* flags) {
  flags->AllowArguments(1, 1, "ADDRESS, host:port of a process of the cluster");
  flags->AddText("tls_dir", "DIR", kAskTlsDir, tls_dir);
  flags->AddText("format", "text|json", "how it is written", &options->format);
  flags->AddCount("timeout_ms", "how long to wait for an answer", {1, 3600000},
                  &options->timeout_ms);
  flags->AddCountOrNone(
      "watch", "[SECONDS]",
      absl::StrCat("again and again until the job ends, every so many seconds "
                   "(",
                   kWatchSeconds, " if none are given)"),
      {1, 3600}, kWatchSeconds, &options->watch_seconds);
  flags->AddCount("give_up_seconds",
                  "with --watch: for how long nobody may tell how the job is",
                  {1, 1000000}, &options->give_up_seconds);
  flags->OnlyWith("give_up_seconds", "--watch",
                  [options] { return options->watch_seconds > 0; });
}

}  // namespace

int StatusCommand(const Invocation& invocation) {
  StatusOptions options;
  std::string tls_dir;
  Flags flags("status", "ADDRESS [flags]",
              "Shows a running cluster, asked at the address of any one of its "
              "processes.\nExits 138 if that one can't be reached.");
  AddFlags(&options, &tls_dir, &flags);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  options.address = flags.arguments()[0];
  absl::Status checked = Check(options);
  const auto tls = OperatorTls(tls_dir);
  checked.Update(tls.status());
  PrintError(checked);
  if (!checked.ok()) return kExitBadConfiguration;
  auto report = Report(options, *tls);
  PrintError(report.status());
  if (!report.ok()) return ExitCodeAtStart(report.status());
  return options.watch_seconds > 0 ? Watch(options, *tls, std::move(report))
                                   : PrintOnce(options, *report);
}

}  // namespace paramd
