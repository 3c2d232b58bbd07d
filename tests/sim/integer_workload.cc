#include "tests/sim/integer_workload.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "proto/refusal.h"
#include "tests/sim/integer_cluster.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/push_ledger.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"

namespace paramd {
namespace {

// One run of the job, in one life of the cluster or two: the second goes on
// from the newest checkpoint of the first, with other numbers of processes.
class IntegerRun {
 public:
  IntegerRun(uint64_t seed, bool verbose)
      : seed_(seed),
        verbose_(verbose),
        job_(seed),
        ledger_(job_),
        random_(StableHash("lives", seed)) {}

  WorkloadReport Run() {
    if (seed_ % 4 != 3) {
      RunLife({.seed = seed_});
      return report_;
    }
    RunLife({.seed = seed_,
             .stop_after_pushes = 1 + random_.Below(job_.batches().size())});
    if (report_.status.ok()) {
      report_.resumed = !restored_.empty();
      RunLife({.seed = seed_ + (uint64_t{1} << 32),
               .servers = 1 + static_cast<uint32_t>(random_.Below(4)),
               .workers = 1 + static_cast<uint32_t>(random_.Below(4))});
    }
    return report_;
  }

 private:
  Simulation::Options SimulationOptions(uint64_t seed) const {
    RandomStream random(StableHash("network", seed));
    Simulation::Options options;
    options.seed = seed;
    options.faults = Faults::Draw(&random);
    options.verbose = verbose_;
    options.replay_command = absl::StrCat(
        "bazel run //tests/sim -- --workload=integers --seed=", seed_,
        " --verbose");
    return options;
  }

  void RunLife(const IntegerCluster::Options& options) {
    Simulation simulation(SimulationOptions(options.seed));
    const IntegerCluster cluster(options, job_, &ledger_, &storage_,
                                 &simulation);
    if (simulation.Run().ok()) simulation.Fail(CheckLife(cluster));
    const bool stopped = ledger_.pushes() >= options.stop_after_pushes;
    if (!stopped && simulation.failure().ok()) simulation.Fail(CheckEnd());
    report_.status = simulation.failure();
    report_.trace_hash =
        report_.trace_hash * 0x9E3779B97F4A7C15 + simulation.trace_hash();
    report_.events += simulation.events();
    report_.checkpoints = storage_.committed().size();
    report_.faults.Add(simulation.fault_counts());
  }

  // All checkpoints of the life that has just ended; their newest is what the
  // next one begins with.
  absl::Status CheckLife(const IntegerCluster& cluster) {
    report_.drained += cluster.drained().size();
    for (; log_checked_ < storage_.log().size(); ++log_checked_) {
      const v1::LogEntry& entry = storage_.log()[log_checked_];
      if (entry.has_fence() &&
          !cluster.drained().contains(
              PeerId::Worker(entry.fence().worker()))) {
        return absl::DataLossError(
            absl::StrCat("worker-", entry.fence().worker(), " was fenced"));
      }
    }
    std::multiset<BatchPlace> newest = restored_;
    for (; checked_ < storage_.committed().size(); ++checked_) {
      const v1::Manifest& manifest = storage_.committed()[checked_];
      auto batches = CheckCheckpoint(manifest);
      if (!batches.ok()) {
        return absl::Status(
            batches.status().code(),
            absl::StrCat("checkpoint ", VersionName(manifest.snapshot()), ": ",
                         batches.status().message()));
      }
      newest = *std::move(batches);
    }
    restored_ = std::move(newest);
    return absl::OkStatus();
  }

  absl::Status CheckEnd() const {
    const uint64_t steps = job_.batches().size();
    if (storage_.committed().empty() || storage_.results().size() != 1) {
      return absl::DataLossError(
          absl::StrCat(storage_.committed().size(), " checkpoints and ",
                       storage_.results().size(), " results were written"));
    }
    const v1::Manifest& last = storage_.committed().back();
    if (last.global_step() != steps ||
        storage_.results()[0].global_step() != steps ||
        restored_.size() != steps) {
      return absl::DataLossError(absl::StrCat(
          "the job ended at step ", last.global_step(), " of ", steps));
    }
    return absl::OkStatus();
  }

  // The batches that are in the checkpoint, after checking that it is so.
  absl::StatusOr<std::multiset<BatchPlace>> CheckCheckpoint(
      const v1::Manifest& manifest) {
    ASSIGN_OR_RETURN(std::multiset<BatchPlace> batches,
                     ledger_.BatchesUpTo(manifest));
    batches.insert(restored_.begin(), restored_.end());
    if (batches.size() != manifest.global_step()) {
      return absl::DataLossError(absl::StrCat(
          "step ", manifest.global_step(), " but ", batches.size(), " pushes"));
    }
    for (size_t v = 0; v < job_.variables().size(); ++v) {
      ASSIGN_OR_RETURN(
          const std::vector<float> values,
          storage_.ReadVariable(manifest, job_.variables()[v].name(), ""));
      RETURN_IF_ERROR(job_.CheckValues(v, values, batches));
    }
    for (const v1::ShardFile& file : manifest.files()) {
      for (const v1::SavedSlice& slice : file.slices()) {
        RETURN_IF_ERROR(CheckRecords(slice, batches.size()));
      }
    }
    RETURN_IF_ERROR(CheckInput(manifest.input(), batches));
    return batches;
  }

  // Every block has seen every push and no record is unfinished.
  static absl::Status CheckRecords(const v1::SavedSlice& slice,
                                   uint64_t pushes) {
    for (const v1::AppliedRun& run : slice.applied()) {
      if (run.applied() != pushes) {
        return absl::DataLossError(
            absl::StrCat("a block of '", slice.variable(), "' says ",
                         run.applied(), " of ", pushes, " pushes are in"));
      }
    }
    for (const v1::PushRecord& record : slice.records()) {
      if (record.missing_blocks_size() != 0) {
        return absl::DataLossError(absl::StrCat(
            "push ", record.sequence(), " of worker-", record.worker(),
            " is not wholly in '", slice.variable(), "'"));
      }
    }
    return slice.partial().empty()
               ? absl::OkStatus()
               : absl::DataLossError("a push was left partial");
  }

  // What is in and what is left are all batches, each once.
  absl::Status CheckInput(const v1::SavedInput& input,
                          std::multiset<BatchPlace> batches) const {
    const uint64_t batch = job_.config().batch_per_replica();
    const auto add = [&](uint32_t epoch, uint64_t begin, uint64_t end) {
      for (; begin < end; begin += batch) batches.insert({epoch, begin});
    };
    for (const v1::SavedInput::Range& range : input.remaining()) {
      add(range.epoch(), range.begin(), range.end());
    }
    for (uint32_t epoch = input.next_epoch(); epoch <= job_.config().epochs();
         ++epoch) {
      add(epoch, epoch == input.next_epoch() ? input.next_offset() : 0,
          job_.examples());
    }
    for (const BatchPlace& place : job_.batches()) {
      if (batches.count(place) != 1) {
        return absl::DataLossError(absl::StrCat(
            "batch ", place.begin, " of epoch ", place.epoch, " is ",
            batches.count(place), " times among what is in and what is left"));
      }
    }
    return batches.size() == job_.batches().size()
               ? absl::OkStatus()
               : absl::DataLossError("input is left that the job has not");
  }

  const uint64_t seed_;
  const bool verbose_;
  const IntegerJob job_;
  PushLedger ledger_;
  SimStorage storage_;
  RandomStream random_;
  WorkloadReport report_;
  size_t checked_ = 0;  // Checkpoints so far.
  size_t log_checked_ = 0;
  // What this life of the cluster began with.
  std::multiset<BatchPlace> restored_;
};

}  // namespace

WorkloadReport RunIntegerWorkload(uint64_t seed, bool verbose) {
  return IntegerRun(seed, verbose).Run();
}

}  // namespace paramd
