// Runs workloads under the simulator: one seed again, or many.
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/check.h"
#include "tests/sim/integer_workload.h"
#include "tests/sim/model_workload.h"

namespace paramd {
namespace {

constexpr char kUsage[] =
    "usage: sim [--workload=integers|model] [--seed=N] [--seeds=N] "
    "[--trace_hash]\n"
    "           [--verbose]\n"
    "  --seed        the first seed, 1 unless told\n"
    "  --seeds       how many seeds from there on, 1 unless told\n"
    "  --trace_hash  print each seed with the hash of its events\n"
    "  --verbose     print every event\n";

struct Flags {
  std::string workload = "integers";
  uint64_t seed = 1;
  uint64_t seeds = 1;
  bool trace_hash = false;
  bool verbose = false;
};

bool Parse(absl::string_view argument, Flags* flags) {
  if (argument == "--trace_hash") return flags->trace_hash = true;
  if (argument == "--verbose") return flags->verbose = true;
  if (absl::ConsumePrefix(&argument, "--seed=")) {
    return absl::SimpleAtoi(argument, &flags->seed);
  }
  if (absl::ConsumePrefix(&argument, "--seeds=")) {
    return absl::SimpleAtoi(argument, &flags->seeds);
  }
  if (absl::ConsumePrefix(&argument, "--workload=")) {
    flags->workload = std::string(argument);
    return flags->workload == "integers" || flags->workload == "model";
  }
  return false;
}

// The number of seeds that failed.
uint64_t RunSeeds(const Flags& flags) {
  uint64_t failed = 0;
  FaultCounts faults;
  TrainedWeights expected;
  if (flags.workload == "model") {
    auto trained = TrainModelInProcess();
    CHECK(trained.ok(), trained.status().ToString());
    expected = *std::move(trained);
  }
  for (uint64_t seed = flags.seed; seed < flags.seed + flags.seeds; ++seed) {
    const WorkloadReport report =
        flags.workload == "model"
            ? RunModelWorkload(seed, flags.verbose, expected)
            : RunIntegerWorkload(seed, flags.verbose);
    faults.Add(report.faults);
    if (flags.trace_hash) {
      std::printf("%llu %016llx\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(report.trace_hash));
    }
    if (report.status.ok()) continue;
    ++failed;
    std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed),
                report.status.ToString().c_str());
  }
  std::printf("%llu of %llu seeds failed\n%s",
              static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(flags.seeds),
              flags.trace_hash ? "" : faults.ToString().c_str());
  return failed;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (paramd::Parse(argv[i], &flags)) continue;
    std::fputs(paramd::kUsage, stderr);
    return 2;
  }
  return paramd::RunSeeds(flags) == 0 ? 0 : 1;
}
