#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/print.h"
#include "cli/commands/command.h"
#include "process/exit_code.h"
#include "process/tls_directory.h"

namespace paramd {
namespace {

constexpr std::pair<int, int> kCounts = {0, 10000};
constexpr std::pair<int, int> kDays = {1, 36500};

absl::Status CheckDirectory(const std::string& directory) {
  if (!directory.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--dir DIR is missing: where the certificates of the job are");
}

std::string Until(int days) {
  return absl::FormatTime("%Y-%m-%d", absl::Now() + days * absl::Hours(24),
                          absl::UTCTimeZone());
}

}  // namespace

int TlsInitCommand(const Invocation& invocation) {
  std::string job, directory;
  TlsTasks tasks = {.servers = 1,
                    .workers = 1,
                    .evaluators = 0,
                    .operators = 1,
                    .readers = 0,
                    .stages = 0};
  int days = 365;
  Flags flags(
      "tls init", "--job NAME --dir DIR [flags]",
      "Makes an authority for one job, and a key and a certificate for "
      "each of its\nprocesses: DIR/ps-0, DIR/worker-0 … hold ca.crt, "
      "tls.crt and tls.key, which is\nwhat --tls_dir takes. Nothing is "
      "written over. Keep DIR/ca.key where no process\nof the job reads "
      "it: it makes further members of the job.");
  flags.AddText("job", "NAME", "the job, as its file names it; must be given",
                &job);
  flags.AddText("dir", "DIR", "new directory; must be given", &directory);
  flags.AddCount("servers", "parameter servers", kCounts, &tasks.servers);
  flags.AddCount("workers", "workers; worker 0 is the chief", kCounts,
                 &tasks.workers);
  flags.AddCount("evaluators", "evaluators", kCounts, &tasks.evaluators);
  flags.AddCount("stages", "processes that compute stages of workers", kCounts,
                 &tasks.stages);
  flags.AddCount("operators", "people or programs that ask and set", kCounts,
                 &tasks.operators);
  flags.AddCount("readers", "people or programs that only look at the job",
                 kCounts, &tasks.readers);
  flags.AddCount("days", "how long the certificates hold", kDays, &days);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  absl::Status status = CheckDirectory(directory);
  if (status.ok()) {
    status = MakeTlsDirectory(directory, job, tasks, days, absl::Now());
  }
  PrintError(status);
  if (!status.ok()) return kExitBadConfiguration;
  Print(absl::StrCat(tasks.servers + tasks.workers + tasks.evaluators +
                         tasks.stages + tasks.operators + tasks.readers,
                     " certificates of job '", job, "' in ", directory,
                     ", until ", Until(days),
                     "; give each process its own with --tls_dir\n"));
  return kExitFinished;
}

int TlsRenewCommand(const Invocation& invocation) {
  std::string directory;
  int days = 365;
  Flags flags("tls renew", "--dir DIR [flags]",
              "Replaces the certificates that 'paramd tls init' made, for the "
              "same keys. Running\nprocesses take the new ones within two "
              "seconds, for connections made from then on.");
  flags.AddText("dir", "DIR", "of 'paramd tls init'; must be given",
                &directory);
  flags.AddCount("days", "how long the new ones hold", kDays, &days);
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  absl::Status status = CheckDirectory(directory);
  PrintError(status);
  if (!status.ok()) return kExitBadConfiguration;
  const auto renewed = RenewTlsDirectory(directory, days, absl::Now());
  PrintError(renewed.status());
  if (!renewed.ok()) return kExitBadConfiguration;
  Print(absl::StrCat(renewed->size(), " certificates in ", directory,
                     " renewed, until ", Until(days), "\n"));
  return kExitFinished;
}

}  // namespace paramd
