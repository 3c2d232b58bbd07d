// Steps of sync mode where workers are slow now and then, beside those where
// nobody is.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/log.h"
#include "bench/backup/sleeping_cluster.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"

namespace paramd {
namespace {

double StepMilliseconds(uint32_t backup_workers, int slowed,
                        absl::Duration window) {
  SleepingCluster cluster({.backup_workers = backup_workers, .slowed = slowed});
  return absl::ToDoubleMilliseconds(cluster.StepTime(window));
}

void Measure(Report* report) {
  const int rounds = report->quick() ? 1 : 5;
  const absl::Duration window =
      report->quick() ? absl::Seconds(3) : absl::Seconds(10);
  Samples clean;
  Samples slowed[2];
  for (int round = 0; round < rounds; ++round) {
    report->Progress(absl::StrCat("backup: round ", round + 1));
    clean.Add(StepMilliseconds(0, 1, window));
    for (const uint32_t backup : {0, 1}) {
      slowed[backup].Add(StepMilliseconds(backup, 4, window));
    }
  }
  for (const uint32_t backup : {0, 1}) {
    report->Add({absl::StrCat("step_ms_with_", backup, "_backup_workers"), "ms",
                 slowed[backup], Figure::Peer{"nobody is slow", clean}});
  }
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("backup", argc, argv);
  paramd::InitLogging("", paramd::LogLevel::kError);
  paramd::Measure(&report);
}
