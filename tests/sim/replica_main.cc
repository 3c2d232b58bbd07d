// Runs the workload with replication: one seed again, or many.
#include <cstdint>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "tests/sim/replica_workload.h"

namespace paramd {
namespace {

void Add(const ReplicaReport& report, ReplicaReport* all) {
  all->kills += report.kills;
  all->at_a_push += report.at_a_push;
  all->pauses += report.pauses;
  all->cuts += report.cuts;
  all->take_overs += report.take_overs;
  all->of_steps += report.of_steps;
  all->members += report.members;
  all->settings += report.settings;
  all->keyed += report.keyed;
  all->compared += report.compared;
  all->drains += report.drains;
  all->hand_overs += report.hand_overs;
  all->chief_kills += report.chief_kills;
  all->kept += report.kept;
  all->checkpoints += report.checkpoints;
}

void Print(const char* what, uint64_t count) {
  std::printf("%s %llu\n", what, static_cast<unsigned long long>(count));
}

void PrintAll(const ReplicaReport& all) {
  Print("kills", all.kills);
  Print("kills in a push", all.at_a_push);
  Print("pauses", all.pauses);
  Print("cuts", all.cuts);
  Print("take-overs", all.take_overs);
  Print("take-overs in sync mode", all.of_steps);
  Print("backups with everything", all.members);
  Print("settings changed", all.settings);
  Print("jobs with rows by key", all.keyed);
  Print("copies compared in the end", all.compared);
  Print("drains", all.drains);
  Print("hand-overs", all.hand_overs);
  Print("coordinators killed", all.chief_kills);
  Print("coordinators whose servers kept what they hold", all.kept);
  Print("checkpoints", all.checkpoints);
}

// How many seeds failed.
uint64_t RunSeeds(uint64_t seed, uint64_t seeds, bool verbose) {
  uint64_t failed = 0;
  ReplicaReport all;
  for (uint64_t end = seed + seeds; seed < end; ++seed) {
    const ReplicaReport report = RunReplicaWorkload(seed, verbose);
    Add(report, &all);
    if (report.status.ok()) continue;
    ++failed;
    std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed),
                report.status.ToString().c_str());
    std::fflush(stdout);
  }
  Print("seeds failed", failed);
  PrintAll(all);
  return failed;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  uint64_t seed = 1;
  uint64_t seeds = 1;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--verbose") {
      verbose = true;
    } else if (absl::ConsumePrefix(&argument, "--seed=")
                   ? !absl::SimpleAtoi(argument, &seed)
                   : !absl::ConsumePrefix(&argument, "--seeds=") ||
                         !absl::SimpleAtoi(argument, &seeds)) {
      std::fputs("usage: replicas [--seed=N] [--seeds=N] [--verbose]\n",
                 stderr);
      return 2;
    }
  }
  return paramd::RunSeeds(seed, seeds, verbose) == 0 ? 0 : 1;
}
