// Runs the workload with replication: one seed again, or many.
#include <cstdint>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "tests/sim/replica_workload.h"

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
  uint64_t failed = 0;
  paramd::ReplicaReport all;
  for (uint64_t end = seed + seeds; seed < end; ++seed) {
    const paramd::ReplicaReport report =
        paramd::RunReplicaWorkload(seed, verbose);
    all.kills += report.kills;
    all.at_a_push += report.at_a_push;
    all.pauses += report.pauses;
    all.cuts += report.cuts;
    all.take_overs += report.take_overs;
    all.of_steps += report.of_steps;
    all.members += report.members;
    all.settings += report.settings;
    all.keyed += report.keyed;
    all.compared += report.compared;
    all.drains += report.drains;
    all.hand_overs += report.hand_overs;
    all.chief_kills += report.chief_kills;
    all.kept += report.kept;
    all.checkpoints += report.checkpoints;
    if (report.status.ok()) continue;
    ++failed;
    std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed),
                report.status.ToString().c_str());
    std::fflush(stdout);
  }
  const auto print = [](const char* what, uint64_t count) {
    std::printf("%s %llu\n", what, static_cast<unsigned long long>(count));
  };
  print("seeds failed", failed);
  print("kills", all.kills);
  print("kills in a push", all.at_a_push);
  print("pauses", all.pauses);
  print("cuts", all.cuts);
  print("take-overs", all.take_overs);
  print("take-overs in sync mode", all.of_steps);
  print("backups with everything", all.members);
  print("settings changed", all.settings);
  print("jobs with rows by key", all.keyed);
  print("copies compared in the end", all.compared);
  print("drains", all.drains);
  print("hand-overs", all.hand_overs);
  print("coordinators killed", all.chief_kills);
  print("coordinators whose servers kept what they hold", all.kept);
  print("checkpoints", all.checkpoints);
  return failed == 0 ? 0 : 1;
}
