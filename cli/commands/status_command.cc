#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/print.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "config/task_address.h"
#include "process/exit_code.h"
#include "process/observe/cluster_report.h"
#include "process/observe/status_client.h"

namespace paramd {
namespace {

absl::Status Check(const std::string& address, const std::string& format) {
  const auto wrong = WrongAddress(address, "ADDRESS");
  if (wrong.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("ADDRESS: ", *wrong));
  }
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is text or json, not '", format, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

int StatusCommand(const Invocation& invocation) {
  std::string format = "text";
  int timeout_ms = 5000;
  Flags flags("status", "ADDRESS [flags]",
              "Shows a running cluster, asked at the address of any one of its "
              "processes.\nExits 138 if that one can't be reached.");
  flags.AllowArguments(1, 1, "ADDRESS, host:port of a process of the cluster");
  std::string tls_dir;
  flags.AddText("tls_dir", "DIR", kAskTlsDir, &tls_dir);
  flags.AddText("format", "text|json", "how it is written", &format);
  flags.AddCount("timeout_ms", "how long to wait for an answer", {1, 3600000},
                 &timeout_ms);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const std::string& address = flags.arguments()[0];
  absl::Status checked = Check(address, format);
  const auto tls = OperatorTls(tls_dir);
  checked.Update(tls.status());
  PrintError(checked);
  if (!checked.ok()) return kExitBadConfiguration;
  const auto report = MakeClusterReport(
      address, [&](const std::vector<std::string>& addresses) {
        return StatusClient(addresses, *tls)
            .Ask(absl::Milliseconds(timeout_ms),
                 StatusClient::Patience::kFailAtOnce);
      });
  PrintError(report.status());
  if (!report.ok()) return ExitCodeAtStart(report.status());
  const auto text = format == "json"
                        ? ReportJson(*report)
                        : absl::StatusOr<std::string>(RenderReport(*report));
  PrintError(text.status());
  if (!text.ok()) return kExitFailed;
  Print(*text);
  return kExitFinished;
}

}  // namespace paramd
