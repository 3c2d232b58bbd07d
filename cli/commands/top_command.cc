#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/print.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "config/task_address.h"
#include "process/exit_code.h"
#include "process/observe/cluster_watch.h"
#include "process/observe/status_client.h"
#include "process/observe/top_view.h"
#include "process/terminal/console.h"
#include "process/terminal/full_screen.h"
#include "proto/message_json.h"

namespace paramd {
namespace {

struct TopOptions {
  std::string address;
  std::string format = "text";
  std::string sort = "worst";
  bool once = false;
  int delay_ms = 1000;
  int timeout_ms = 5000;
};

absl::Status Check(const TopOptions& options) {
  const auto wrong = WrongAddress(options.address, "ADDRESS");
  if (wrong.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("ADDRESS: ", *wrong));
  }
  if (options.format != "text" && options.format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is text or json, not '", options.format, "'"));
  }
  if (!TopOrderNamed(options.sort).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sort is worst, name, rate or memory, not '", options.sort, "'"));
  }
  return absl::OkStatus();
}

// The process at an address, asked again and again by a watch's thread.
class Asked {
 public:
  Asked(const TopOptions& options, std::shared_ptr<const Tls> tls)
      : timeout_(absl::Milliseconds(options.timeout_ms)),
        client_({options.address}, std::move(tls)) {}

  absl::optional<v1::StatusReply> Status() {
    absl::StatusOr<v1::StatusReply> said =
        client_.Ask(timeout_, StatusClient::Patience::kFailAtOnce)[0];
    MutexLock lock(&mutex_);
    failure_ = said.status();
    if (!said.ok()) return absl::nullopt;
    return *std::move(said);
  }
  // Of the newest question.
  absl::Status failure() {
    MutexLock lock(&mutex_);
    return failure_;
  }

 private:
  const absl::Duration timeout_;
  StatusClient client_;
  Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// One that says how old it is where the process does not answer any more.
v1::StatusPage PageNow(v1::StatusPage page, const absl::Status& failure) {
  if (!failure.ok()) {
    page.set_verdict(absl::StrCat(
        "no answer (", failure.message(), "), as it was ",
        static_cast<int64_t>(page.age_seconds()), " s ago: ", page.verdict()));
  }
  return page;
}

void Watch(const TopOptions& options, Asked* asked, ClusterWatch* watch,
           v1::StatusPage page) {
  FullScreen screen;
  TopOrder order = *TopOrderNamed(options.sort);
  bool is_paused = false;
  Time drawn;
  while (FullScreen::EndingSignal() == 0) {
    const absl::Duration left =
        drawn + absl::Milliseconds(options.delay_ms) - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      drawn = MonotonicNow();
      auto next = watch->Page(std::numeric_limits<uint64_t>::max(),
                              absl::ZeroDuration());
      if (next.has_value() && !is_paused) {
        page = PageNow(*std::move(next), asked->failure());
      }
    }
    const FullScreen::Size size = FullScreen::SizeNow();
    screen.Show(RenderTop(page, order, size.columns, size.rows));
    switch (screen.NextKey(std::max(left, absl::Milliseconds(100)))) {
      case 'q':
        return;
      case 'o':
        order = NextTopOrder(order);
        break;
      case 'p':
        is_paused = !is_paused;
        break;
      default:
        break;
    }
  }
}

// The first page, and where somebody watches all later ones; the exit code.
int Show(const TopOptions& options, Asked* asked, ClusterWatch* watch,
         v1::StatusPage page) {
  if (options.format == "json") {
    const auto json = MessageJson(page);
    PrintError(json.status());
    if (!json.ok()) return kExitFailed;
    Print(*json);
  } else if (options.once || !StdoutIsTerminal()) {
    Print(RenderTop(page, *TopOrderNamed(options.sort),
                    /*columns=*/std::numeric_limits<int>::max(), /*rows=*/0));
  } else {
    Watch(options, asked, watch, std::move(page));
  }
  return kExitFinished;
}

}  // namespace

int TopCommand(const Invocation& invocation) {
  TopOptions options;
  Flags flags("top", "ADDRESS [flags]",
              "Watches a running cluster on the whole terminal, asked at the "
              "address of any one of\nits processes: what the status page "
              "shows, the worst process first. Where the\noutput is no "
              "terminal it prints once. Exits 138 if that process can't be "
              "reached.");
  flags.AllowArguments(1, 1, "ADDRESS, host:port of a process of the cluster");
  std::string tls_dir;
  flags.AddText("tls_dir", "DIR", kAskTlsDir, &tls_dir);
  flags.AddText("format", "text|json",
                "how it is written; json: once, as /status.json has it",
                &options.format);
  flags.AddText("sort", "worst|name|rate|memory", "which process stands first",
                &options.sort);
  flags.AddSwitch("once", "print once and end", &options.once);
  flags.AddCount("delay_ms", "how often the screen is redrawn", {100, 3600000},
                 &options.delay_ms);
  flags.AddCount("timeout_ms", "how long to wait for an answer", {1, 3600000},
                 &options.timeout_ms);
  flags.OnlyWith("delay_ms", "a screen, without --once and --format json",
                 [&] { return !options.once && options.format != "json"; });
  flags.OnlyWith("sort", "--format text",
                 [&] { return options.format != "json"; });
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  options.address = flags.arguments()[0];
  absl::Status checked = Check(options);
  const auto tls = OperatorTls(tls_dir);
  checked.Update(tls.status());
  PrintError(checked);
  if (!checked.ok()) return kExitBadConfiguration;

  Asked asked(options, *tls);
  if (!asked.Status().has_value()) {
    const absl::Status failure = asked.failure();
    const absl::Status said(
        failure.code(), absl::StrCat(options.address,
                                     " can't be reached: ", failure.message()));
    PrintError(said);
    return ExitCodeAtStart(said);
  }
  ClusterWatch watch(
      {.own_status = [&] { return asked.Status(); }, .tls = *tls});
  auto page = watch.Page(0, absl::Milliseconds(2 * options.timeout_ms));
  if (!page.has_value()) {
    PrintError(asked.failure());
    return kExitRetry;
  }
  return Show(options, &asked, &watch, *std::move(page));
}

}  // namespace paramd
