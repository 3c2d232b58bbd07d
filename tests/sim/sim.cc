// Runs workloads under the simulator: one seed again, or many.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "checkpoint/safetensors.h"
#include "tests/sim/integer_workload.h"
#include "tests/sim/model_workload.h"

namespace paramd {
namespace {

constexpr char kUsage[] =
    "usage: sim [--workload=integers|model | --job=FILE [--servers=N]] "
    "[--seed=N]\n"
    "           [--seeds=N] [--trace_hash] [--verbose] [--weights=FILE]\n"
    "  --job         the model workload on this job and the data it names\n"
    "  --servers     how many servers the job has, 2 unless told\n"
    "  --seed        the first seed, 1 unless told\n"
    "  --seeds       how many seeds from there on, 1 unless told\n"
    "  --trace_hash  print each seed with the hash of its events\n"
    "  --verbose     print every event\n"
    "  --weights     write what the last seed trained the model to, a "
    "safetensors file\n";

struct Flags {
  std::string workload = "integers";
  std::string job;
  uint32_t servers = 2;
  uint64_t seed = 1;
  uint64_t seeds = 1;
  bool trace_hash = false;
  bool verbose = false;
  std::string weights;
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
  if (absl::ConsumePrefix(&argument, "--job=")) {
    flags->workload = "model";
    flags->job = std::string(argument);
    return true;
  }
  if (absl::ConsumePrefix(&argument, "--servers=")) {
    return absl::SimpleAtoi(argument, &flags->servers) && flags->servers > 0;
  }
  if (absl::ConsumePrefix(&argument, "--weights=")) {
    flags->weights = std::string(argument);
    return true;
  }
  return false;
}

// Each entry as a flat tensor of its name.
absl::Status WriteWeights(const std::string& path,
                          const TrainedWeights& weights) {
  std::vector<TensorInfo> tensors;
  std::string data;
  for (const auto& [name, bytes] : weights) {
    tensors.push_back({.name = name,
                       .dtype = "F32",
                       .shape = {bytes.size() / sizeof(float)},
                       .begin = data.size(),
                       .end = data.size() + bytes.size()});
    data += bytes;
  }
  ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(tensors));
  std::ofstream file(path, std::ios::binary);
  file << header << data;
  file.close();
  if (file.fail()) {
    return absl::UnavailableError(absl::StrCat("'", path, "' is not written"));
  }
  return absl::OkStatus();
}

// Prints how the seeds went; the number of those that failed.
uint64_t RunSeeds(const Flags& flags,
                  const std::function<WorkloadReport(uint64_t seed)>& run) {
  uint64_t failed = 0;
  FaultCounts faults;
  for (uint64_t seed = flags.seed; seed < flags.seed + flags.seeds; ++seed) {
    const WorkloadReport report = run(seed);
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

absl::StatusOr<uint64_t> RunModelSeeds(const Flags& flags) {
  ModelJob job = DrawnModelJob();
  if (!flags.job.empty()) {
    ASSIGN_OR_RETURN(job, LoadModelJob(flags.job, flags.servers));
  }
  ASSIGN_OR_RETURN(const TrainedWeights expected, TrainModelInProcess(job));
  TrainedWeights trained;
  const uint64_t failed = RunSeeds(flags, [&](uint64_t seed) {
    ModelReport report = RunModelWorkload(job, seed, flags.verbose, expected);
    trained = std::move(report.trained);
    return WorkloadReport(std::move(report));
  });
  if (!flags.weights.empty()) {
    RETURN_IF_ERROR(WriteWeights(flags.weights, trained));
  }
  return failed;
}

// The process's exit code.
int Run(const Flags& flags) {
  if (flags.workload == "integers") {
    const uint64_t failed = RunSeeds(flags, [&](uint64_t seed) {
      return RunIntegerWorkload(seed, flags.verbose);
    });
    return failed == 0 ? 0 : 1;
  }
  const absl::StatusOr<uint64_t> failed = RunModelSeeds(flags);
  if (failed.ok()) return *failed == 0 ? 0 : 1;
  std::fprintf(stderr, "%s\n", failed.status().ToString().c_str());
  return 2;
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
  return paramd::Run(flags);
}
