// Runs workloads under the simulator: one seed again, or many.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"

#include "base/status_macros.h"
#include "checkpoint/safetensors.h"
#include "tests/sim/bounded_workload.h"
#include "tests/sim/cut_workload.h"
#include "tests/sim/integer_workload.h"
#include "tests/sim/mode_workload.h"
#include "tests/sim/model_workload.h"
#include "tests/sim/pipeline_workload.h"
#include "tests/sim/replica_workload.h"
#include "tests/sim/rounds_workload.h"
#include "tests/sim/stage_workload.h"
#include "tests/sim/stop_workload.h"
#include "tests/sim/sync_workload.h"

namespace paramd {
namespace {

constexpr char kUsage[] =
    "usage: sim [--workload=integers|growing|overlapping|joining|sync|mode|"
    "bounded|\n"
    "                       cut|stop|rounds|pipeline|stages|replicas|scaling|"
    "election|\n"
    "                       model|in_step\n"
    "           | --job=FILE [--servers=N]] [--seed=N]\n"
    "           [--seeds=N | --minutes=N] [--until_failure] [--trace_hash] "
    "[--verbose] [--weights=FILE]\n"
    "  --workload    growing: files appear while the job runs; overlapping:\n"
    "                workers compute several steps at the same time; joining:\n"
    "                two workers are not on the job's list;\n"
    "                in_step: the model in sync mode, on three workers; cut: "
    "stopped and\n"
    "                restored at any moment, onto other servers; stop: "
    "stopped by an\n"
    "                operator; rounds: workers that each keep a copy;\n"
    "                pipeline: a model in stages, on devices that fail; "
    "stages: one\n"
    "                whose first stages other processes compute;\n"
    "                replicas: servers with a backup each; scaling: those on "
    "fewer\n"
    "                processes, and on more again; election: those under a "
    "chief that\n"
    "                an etcd elects\n"
    "  --job         the model workload on this job and the data it names\n"
    "  --servers     how many servers the job has, 2 unless told\n"
    "  --seed        the first seed, 1 unless told, drawn with --minutes\n"
    "  --seeds       how many seeds from there on, 1 unless told\n"
    "  --minutes     for so long, until one fails\n"
    "  --until_failure  no more seeds after the first one that fails\n"
    "  --trace_hash  print each seed with the hash of its events\n"
    "  --verbose     print every event\n"
    "  --weights     write what the last seed trained the model to, a "
    "safetensors file\n";

struct Flags {
  std::string workload = "integers";
  std::string job;
  uint32_t servers = 2;
  absl::optional<uint64_t> seed;
  uint64_t seeds = 1;
  uint64_t minutes = 0;
  bool until_failure = false;
  bool trace_hash = false;
  bool verbose = false;
  std::string weights;
};

bool IsModel(const Flags& flags) {
  return flags.workload == "model" || flags.workload == "in_step";
}

using WorkloadRun = WorkloadReport (*)(uint64_t seed, bool verbose);

WorkloadReport RunBounded(uint64_t seed, bool verbose) {
  return RunBoundedWorkload(seed, verbose);
}

WorkloadReport RunReplicas(uint64_t seed, bool verbose) {
  return RunReplicaWorkload(seed, verbose);
}

WorkloadReport RunScaling(uint64_t seed, bool verbose) {
  return RunScalingWorkload(seed, verbose);
}

WorkloadReport RunElection(uint64_t seed, bool verbose) {
  return RunElectionWorkload(seed, verbose);
}

WorkloadReport RunPipeline(uint64_t seed, bool verbose) {
  return RunPipelineWorkload(seed, verbose);
}

WorkloadReport RunStages(uint64_t seed, bool verbose) {
  return RunStageWorkload(seed, verbose);
}

// What it is compared with is trained once for all seeds.
WorkloadReport RunCut(uint64_t seed, bool verbose) {
  static CutWorkload* const cuts = new CutWorkload();
  return cuts->Run(seed, verbose);
}

// Every second seed with two workers, every third without one of four.
WorkloadReport RunRoundsOf(uint64_t seed, bool) {
  RoundsOptions options;
  options.seed = seed;
  options.workers = seed % 2 == 0 ? 2 : 3;
  if (seed % 3 == 0) {
    options.workers = 4;
    options.one_stays_away = true;
  }
  RoundsCounts counts;
  const auto wrong = RunRounds(options, &counts);
  WorkloadReport report;
  if (wrong.has_value()) report.status = absl::InternalError(*wrong);
  return report;
}

// Null: there is none of that name.
WorkloadRun RunOf(absl::string_view workload) {
  static constexpr std::pair<absl::string_view, WorkloadRun> kRuns[] = {
      {"integers", RunIntegerWorkload},
      {"growing", RunGrowingWorkload},
      {"overlapping", RunOverlappingWorkload},
      {"joining", RunJoiningWorkload},
      {"sync", RunSyncWorkload},
      {"mode", RunModeWorkload},
      {"bounded", RunBounded},
      {"cut", RunCut},
      {"stop", RunStopWorkload},
      {"rounds", RunRoundsOf},
      {"pipeline", RunPipeline},
      {"stages", RunStages},
      {"replicas", RunReplicas},
      {"scaling", RunScaling},
      {"election", RunElection}};
  for (const auto& [name, run] : kRuns) {
    if (name == workload) return run;
  }
  return nullptr;
}

bool Parse(absl::string_view argument, Flags* flags) {
  if (argument == "--trace_hash") return flags->trace_hash = true;
  if (argument == "--verbose") return flags->verbose = true;
  if (absl::ConsumePrefix(&argument, "--seed=")) {
    return absl::SimpleAtoi(argument, &flags->seed.emplace());
  }
  if (absl::ConsumePrefix(&argument, "--seeds=")) {
    return absl::SimpleAtoi(argument, &flags->seeds);
  }
  if (argument == "--until_failure") return flags->until_failure = true;
  if (absl::ConsumePrefix(&argument, "--minutes=")) {
    return absl::SimpleAtoi(argument, &flags->minutes);
  }
  if (absl::ConsumePrefix(&argument, "--workload=")) {
    flags->workload = std::string(argument);
    return IsModel(*flags) || RunOf(flags->workload) != nullptr;
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

// What many runs came to.
struct Totals {
  uint64_t seeds = 0;
  uint64_t failed = 0;
  WorkloadReport all;

  void Add(const WorkloadReport& report) {
    ++seeds;
    failed += report.status.ok() ? 0 : 1;
    all.events += report.events;
    all.pushes += report.pushes;
    all.chunks_applied += report.chunks_applied;
    all.hits += report.hits;
    all.lost += report.lost;
    all.doubled += report.doubled;
    all.faults.Add(report.faults);
    all.probes.Add(report.probes);
  }

  void Print(double cpu_seconds) const {
    const auto number = [](uint64_t n) {
      return static_cast<unsigned long long>(n);
    };
    std::printf(
        "%llu of %llu seeds failed\n"
        "%llu pushes, %llu faults hit an open push, %llu blocks lost with a "
        "server and %llu doubled by a killed worker, all explained\n"
        "%.0f s of CPU: %.0f chunks applied and %.0f events in each\n",
        number(failed), number(seeds), number(all.pushes), number(all.hits),
        number(all.lost), number(all.doubled), cpu_seconds,
        all.chunks_applied / cpu_seconds, all.events / cpu_seconds);
  }
};

// Runs seeds as the flags say and prints how they went; the number of those
// that failed.
uint64_t RunSeeds(const Flags& flags,
                  const std::function<WorkloadReport(uint64_t seed)>& run) {
  Totals totals;
  const std::clock_t began = std::clock();
  const auto cpu_seconds = [&] {
    return std::max(0.001, double(std::clock() - began) / CLOCKS_PER_SEC);
  };
  const std::time_t until = std::time(nullptr) + 60 * flags.minutes;
  uint64_t seed =
      flags.seed.value_or(flags.minutes > 0 ? std::random_device()() : 1);
  const auto goes_on = [&] {
    if (flags.until_failure && totals.failed > 0) return false;
    if (flags.minutes == 0) return totals.seeds < flags.seeds;
    return totals.failed == 0 && std::time(nullptr) < until;
  };
  for (; goes_on(); ++seed) {
    const WorkloadReport report = run(seed);
    totals.Add(report);
    if (flags.trace_hash) {
      std::printf("%llu %016llx\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(report.trace_hash));
    }
    if (!report.status.ok()) {
      std::printf("seed %llu failed: %s\n",
                  static_cast<unsigned long long>(seed),
                  report.status.ToString().c_str());
      std::fflush(stdout);
    }
    if (flags.minutes > 0 && totals.seeds % 1000 == 0) {
      std::printf("up to seed %llu:\n", static_cast<unsigned long long>(seed));
      totals.Print(cpu_seconds());
      std::fflush(stdout);
    }
  }
  totals.Print(cpu_seconds());
  if (!flags.trace_hash) {
    std::printf("\n%s\n%s", totals.all.faults.ToString().c_str(),
                totals.all.probes.ToString().c_str());
  }
  return totals.failed;
}

absl::StatusOr<uint64_t> RunModelSeeds(const Flags& flags) {
  ModelJob job = DrawnModelJob();
  if (!flags.job.empty()) {
    ASSIGN_OR_RETURN(job, LoadModelJob(flags.job, flags.servers));
  }
  const uint32_t workers = flags.workload == "in_step" ? 3 : 1;
  if (workers > 1) {
    job.config.set_staleness("sync");
    job.config.set_accumulate(workers);
  }
  ASSIGN_OR_RETURN(const TrainedWeights expected, TrainModelInProcess(job));
  if (workers > 1) {
    job.config.set_accumulate(1);
    job.workers = workers;
  }
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
  if (!IsModel(flags)) {
    const WorkloadRun run = RunOf(flags.workload);
    const uint64_t failed = RunSeeds(
        flags, [&](uint64_t seed) { return run(seed, flags.verbose); });
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
