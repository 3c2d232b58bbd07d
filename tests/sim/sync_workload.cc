#include "tests/sim/sync_workload.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "proto/refusal.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_cluster.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/saved_rows.h"
#include "tests/sim/simulation.h"
#include "tests/sim/step_witness.h"
#include "tests/sim/storage.h"

namespace paramd {
namespace {

bool HasBackup(uint64_t seed) { return seed % 5 == 0; }
bool IsCalm(uint64_t seed) { return seed % 7 == 0; }

// With entries of the log that take long, so that others join and go meanwhile.
bool SyncHasSlowLog(uint64_t seed) { return seed % 4 == 2; }

// What servers apply is then compared with one process's steps, bit for bit.
bool IsRounded(uint64_t seed) { return seed % 3 == 1; }

IntegerJob::Options JobOptions(uint64_t seed) {
  RandomStream random(StableHash("sync lease", seed));
  IntegerJob::Options options = {
      .examples = 300,
      .lease = absl::Milliseconds(6000 + random.Below(6000)),
      .staleness = "sync",
      .backup_workers = HasBackup(seed) ? 1u : 0u,
      .rounded = IsRounded(seed),
      .pruned = IsRounded(seed) && seed % 2 == 1};
  if (IsRounded(seed)) return options;
  options.sparse = seed % 5 == 2;
  if (options.sparse) options.width = IntegerJob::DrawWidth(seed);
  if (seed % 10 == 7) options.keys = IntegerJob::Keys::kFit;
  options.push_format = IntegerJob::DrawFormat(0.25, &random);
  options.pull_format = IntegerJob::DrawFormat(0.25, &random);
  return options;
}

class SyncRun {
 public:
  SyncRun(uint64_t seed, bool verbose)
      : seed_(seed),
        cut_(DrawCut(seed)),
        job_(seed, JobOptions(seed)),
        random_(StableHash("sync lives", seed)),
        simulation_(SimulationOptions(seed, verbose)),
        witness_(storage_, &report_, [this](absl::Status status) {
          simulation_.Fail(std::move(status));
        }) {}

  WorkloadReport Run() {
    simulation_.Watch(&witness_);
    if (SyncHasSlowLog(seed_)) storage_.SlowLog(absl::Seconds(3));
    IntegerCluster cluster(
        {.seed = seed_,
         .servers = 1 + static_cast<uint32_t>(random_.Below(3)),
         .workers = 2 + static_cast<uint32_t>(random_.Below(3)),
         .gentle = false,
         .last_worker_is_late = random_.Chance(0.2),
         .exact = !HasBackup(seed_) && !IsRounded(seed_),
         .scaled = HasBackup(seed_)},
        job_, /*witness=*/nullptr, &storage_, &simulation_);
    Plan(&cluster);
    if (simulation_.Run().ok()) simulation_.Fail(Check());
    report_.status = simulation_.failure();
    report_.trace_hash = simulation_.trace_hash();
    report_.events = simulation_.events();
    report_.checkpoints = storage_.committed().size();
    report_.drained = cluster.drained();
    report_.faults.Add(simulation_.fault_counts());
    return std::move(report_);
  }

 private:
  static Simulation::Options SimulationOptions(uint64_t seed, bool verbose) {
    RandomStream random(StableHash("network", seed));
    Simulation::Options options;
    options.seed = seed;
    options.faults = Faults::Draw(&random);
    options.verbose = verbose;
    options.replay_command = absl::StrCat(
        "bazel run //tests/sim -- --workload=sync --seed=", seed, " --verbose");
    return options;
  }

  // Every second of the job something may happen to somebody.
  void Plan(IntegerCluster* cluster) {
    simulation_.At(absl::Seconds(20), [cluster] { cluster->AddLateWorker(); });
    if (IsCalm(seed_)) return;
    absl::Duration at;
    for (uint64_t faults = 2 + random_.Below(8); faults > 0; --faults) {
      at += absl::Milliseconds(500 + random_.Below(8000));
      const std::vector<PeerId> tasks = cluster->tasks();
      const PeerId victim = tasks[random_.Below(tasks.size())];
      const uint64_t kind = random_.Below(8);
      const absl::Duration time = absl::Milliseconds(random_.Below(12000));
      const bool late = random_.Chance(0.5);
      simulation_.At(at,
                     [=, this] { Strike(cluster, victim, kind, time, late); });
    }
  }

  void Strike(IntegerCluster* cluster, PeerId victim, uint64_t kind,
              absl::Duration time, bool late_work) {
    if (storage_.finished()) return;
    static const char* const names[] = {"kill",  "kill",  "kill",    "replace",
                                        "drain", "pause", "cut off", "slow"};
    simulation_.CountFault(names[kind], PeerName(victim));
    ++report_.hits;
    switch (kind) {
      case 0:
      case 1:
      case 2:
        return cluster->Kill(victim, late_work);
      case 3:
        return cluster->Replace(victim);
      case 4:
        if (victim == PeerId::Coordinator()) return;  // The run would end.
        return cluster->Drain(victim);
      case 5:
        return simulation_.Pause(victim, time);
      case 6:
        return simulation_.CutOff(victim, time);
      default:
        return simulation_.Slow(victim, time);
    }
  }

  absl::Status Check() {
    if (!storage_.finished() || storage_.committed().empty()) {
      return absl::DataLossError("the job did not end");
    }
    for (const v1::Manifest& manifest : storage_.committed()) {
      const absl::Status status = CheckCheckpoint(manifest);
      if (status.ok()) continue;
      return absl::Status(
          status.code(),
          absl::StrCat("checkpoint ", VersionName(manifest.snapshot()), ": ",
                       status.message()));
    }
    const v1::SavedInput& left = storage_.committed().back().input();
    if (!left.remaining().empty() ||
        left.next_epoch() <= job_.config().epochs()) {
      return absl::DataLossError("the job ended with input left");
    }
    return absl::OkStatus();
  }

  absl::Status CheckCheckpoint(const v1::Manifest& manifest) {
    if (!manifest.input().remaining().empty()) {
      return absl::DataLossError("sync mode leaves no portions behind");
    }
    Newest newest;
    for (const v1::ShardFile& file : manifest.files()) {
      if (file.lost_size() > 0) {
        return absl::DataLossError("all is computed again, but some is lost");
      }
      for (const v1::SavedSlice& slice : file.slices()) {
        RETURN_IF_ERROR(CheckSlice(slice, manifest.global_step()));
        RETURN_IF_ERROR(CheckRecords(slice, &newest));
      }
    }
    if (IsRounded(seed_)) return CheckBits(manifest);
    if (HasBackup(seed_)) return absl::OkStatus();
    std::multiset<BatchPlace> in;
    for (const BatchPlace& batch : job_.batches()) {
      if (batch.epoch < manifest.input().next_epoch() ||
          (batch.epoch == manifest.input().next_epoch() &&
           batch.begin < manifest.input().next_offset())) {
        in.insert(batch);
      }
    }
    for (size_t v = 0; v < job_.variables().size(); ++v) {
      ASSIGN_OR_RETURN(const SavedRows saved,
                       ReadRows(storage_, job_, manifest, v, ""));
      RETURN_IF_ERROR(job_.CheckValues(v, saved.numbers, in));
      RETURN_IF_ERROR(job_.CheckKeys(saved.present, in));
    }
    return absl::OkStatus();
  }

  // Whoever died or joined: the numbers are those of one process that does the
  // same steps one after another.
  absl::Status CheckBits(const v1::Manifest& manifest) {
    RETURN_IF_ERROR(witness_.CheckBits(job_, manifest));
    report_.probes.Hit("sync: the bits of one process");
    return absl::OkStatus();
  }

  static absl::Status CheckSlice(const v1::SavedSlice& slice, uint64_t steps) {
    for (const v1::AppliedRun& run : slice.applied()) {
      if (run.applied() == steps) continue;
      return absl::DataLossError(absl::StrCat("a block of '", slice.variable(),
                                              "' says that ", run.applied(),
                                              " of ", steps, " steps are in"));
    }
    for (const v1::PushRecord& record : slice.records()) {
      if (record.missing_blocks().empty()) continue;
      return absl::DataLossError(absl::StrCat(
          "push ", record.sequence(), " of worker-", record.worker(),
          " is half in '", slice.variable(), "'"));
    }
    return slice.partial().empty()
               ? absl::OkStatus()
               : absl::DataLossError("a push was left partial");
  }

  // By worker, how many of its pushes are in a slice, and the newest one: term,
  // counter and sequence; zeros where a fence that came between two seals hides
  // it.
  struct Pushes {
    uint64_t count = 0;
    std::tuple<uint64_t, uint64_t, uint64_t> newest;
  };
  using Newest = std::map<uint32_t, Pushes>;

  // A step has the same contributions everywhere.
  static absl::Status CheckRecords(const v1::SavedSlice& slice,
                                   Newest* newest) {
    for (const v1::PushRecord& record : slice.records()) {
      Pushes pushes = {.count = record.earlier(), .newest = {}};
      if (record.sequence() > 0) {
        ++pushes.count;
        pushes.newest = {record.generation().term(),
                         record.generation().counter(), record.sequence()};
      }
      Pushes& known =
          newest->try_emplace(record.worker(), pushes).first->second;
      if (known.newest == std::tuple<uint64_t, uint64_t, uint64_t>()) {
        known.newest = pushes.newest;
      }
      const bool same = record.sequence() == 0 || known.newest == pushes.newest;
      if (known.count == pushes.count && same) continue;
      return absl::DataLossError(
          absl::StrCat("'", slice.variable(), "' has ", pushes.count,
                       " pushes of worker-", record.worker(), " up to ",
                       record.sequence(), ", another slice ", known.count));
    }
    return absl::OkStatus();
  }

  const uint64_t seed_;
  const FineCut cut_;
  const IntegerJob job_;
  RandomStream random_;
  SimStorage storage_;
  WorkloadReport report_;
  Simulation simulation_;
  StepWitness witness_;
};

}  // namespace

WorkloadReport RunSyncWorkload(uint64_t seed, bool verbose) {
  return SyncRun(seed, verbose).Run();
}

}  // namespace paramd
