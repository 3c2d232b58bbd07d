// Runs the bounded workload: one seed again, or many.
#include <cstdint>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "tests/sim/bounded_workload.h"

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
      std::fputs("usage: bounded [--seed=N] [--seeds=N] [--verbose]\n", stderr);
      return 2;
    }
  }
  uint64_t failed = 0;
  paramd::BoundWitness::Counts bound;
  paramd::BoundedReport all;
  for (uint64_t end = seed + seeds; seed < end; ++seed) {
    const paramd::BoundedReport report =
        paramd::RunBoundedWorkload(seed, verbose);
    bound.Add(report.bound);
    all.crashes += report.crashes;
    all.joins += report.joins;
    all.settings += report.settings;
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
  print("pulls under a bound", bound.pulls);
  print("pulls parked", bound.parked);
  print("told to wait", bound.told);
  print("freed by a clock", bound.freed_by_clock);
  print("freed by silence", bound.freed_by_silence);
  print("freed by a configuration", bound.freed_by_configuration);
  print("crashes", all.crashes);
  print("late joins", all.joins);
  print("changes of the staleness", all.settings);
  return failed == 0 ? 0 : 1;
}
