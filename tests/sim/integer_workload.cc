#include "tests/sim/integer_workload.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "tests/sim/chaos.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/growing_files.h"
#include "tests/sim/integer_cluster.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/integer_witness.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "tests/sim/trained_run.h"

namespace paramd {
namespace {

// With checkpoints that hold what has changed since another one.
bool IsIncremental(uint64_t seed) { return seed % 3 == 0; }
// With servers that do not always see the directory.
bool HasBlindServers(uint64_t seed) { return seed % 7 == 2; }

// With checkpoints that are damaged when they are to be restored.
bool HasDamage(uint64_t seed) {
  return seed % 7 == 0 || seed % 7 == 3 || seed % 21 == 16;
}

// With checkpoints that can't be read now and then.
bool HasUnreadable(uint64_t seed) { return seed % 7 == 5 && !IsGentle(seed); }

// With entries of the log that take long, so that others join and go meanwhile.
bool HasSlowLog(uint64_t seed) { return seed % 5 == 4; }

// Whether a server that is away for a little long is waited for.
absl::Duration DrawGiveUp(uint64_t seed) {
  if (IsGentle(seed) || seed % 6 != 1) return absl::Minutes(5);
  RandomStream random(StableHash("give up", seed));
  return absl::Milliseconds(1500 + random.Below(4000));
}

// What is made of gradients on their way and where they are applied.
void DrawNumbers(uint64_t seed, IntegerJob::Options* options) {
  RandomStream random(StableHash("numbers", seed));
  options->push_format = IntegerJob::DrawFormat(0.25, &random);
  if (IsGentle(seed)) return;
  options->pull_format = IntegerJob::DrawFormat(0.25, &random);
  if (random.Chance(0.15)) options->decay_steps = 200 + random.Below(400);
  options->scale_rate = random.Chance(0.15);
  if (random.Chance(0.15)) options->spoiled = 0.04;
}

// With a variable whose rows travel by themselves; in every other one by key.
bool IsSparse(uint64_t seed) { return seed % 5 == 2; }
IntegerJob::Keys KeysOf(uint64_t seed) {
  if (seed % 10 != 7) return IntegerJob::Keys::kNone;
  constexpr IntegerJob::Keys kKinds[] = {IntegerJob::Keys::kEvict,
                                         IntegerJob::Keys::kFit,
                                         IntegerJob::Keys::kIgnore};
  return kKinds[RandomStream(StableHash("kind of keys", seed)).Below(3)];
}

// Every other of those with keys admits them late, lets them expire, or both.
void DrawPolicy(uint64_t seed, IntegerJob::Options* options) {
  if (options->keys == IntegerJob::Keys::kNone) return;
  RandomStream random(StableHash("expiry", seed));
  if (random.Below(2) != 0) return;
  const uint64_t kind = random.Below(3);
  if (kind != 0) {
    options->admit_after = 2 + static_cast<uint32_t>(random.Below(3));
  }
  if (kind != 1) options->expire_after = 4 + random.Below(20);
}

enum class Variant { kIntegers, kGrowing, kOverlapping, kJoining };

const char* NameOf(Variant variant) {
  switch (variant) {
    case Variant::kGrowing:
      return "growing";
    case Variant::kOverlapping:
      return "overlapping";
    case Variant::kJoining:
      return "joining";
    case Variant::kIntegers:
      break;
  }
  return "integers";
}

IntegerJob::Options JobOptions(uint64_t seed, Variant variant) {
  IntegerJob::Options options;
  options.growing = variant == Variant::kGrowing;
  DrawNumbers(seed, &options);
  if (variant == Variant::kOverlapping) {
    RandomStream random(StableHash("overlapping", seed));
    options.concurrent = 2 + static_cast<uint32_t>(random.Below(3));
  } else {
    options.sparse = IsSparse(seed);
    options.keys = KeysOf(seed);
    if (options.sparse) options.width = IntegerJob::DrawWidth(seed);
  }
  if (variant == Variant::kIntegers) DrawPolicy(seed, &options);
  if (IsIncremental(seed)) {
    RandomStream random(StableHash("incremental", seed));
    options.incremental = 1 + static_cast<uint32_t>(random.Below(4));
    options.touched = 0.003;
  }
  if (IsGentle(seed)) return options;
  RandomStream random(StableHash("lease", seed));
  // Two epochs of at least 150 batches; some leases are shorter than some
  // silences.
  options.examples = 600;
  options.lease = absl::Milliseconds(5000 + random.Below(10000));
  options.adam = seed % 4 == 1;
  return options;
}

// One run of the job, in one life of the cluster or two: the second goes on
// from the newest checkpoint of the first, with other numbers of processes. Or
// another run, which begins with what that one learned.
class IntegerRun {
 public:
  IntegerRun(uint64_t seed, Variant variant, bool verbose)
      : seed_(seed),
        variant_(variant),
        verbose_(verbose),
        cut_(DrawCut(seed)),
        job_(seed, JobOptions(seed, variant)),
        files_(job_, storage_, seed),
        witness_(job_, storage_, &report_.probes),
        random_(StableHash("lives", seed)),
        blind_(StableHash("blind", seed)),
        damage_(StableHash("damage", seed)),
        unreadable_(StableHash("unreadable", seed)) {
    if (HasUnreadable(seed)) storage_.Unreadable(0.15, &unreadable_);
    if (HasSlowLog(seed)) storage_.SlowLog(absl::Seconds(3));
    if (HasBlindServers(seed)) storage_.Blind(0.3, &blind_);
    if (!HasDamage(seed)) return;
    // While the job runs files may be based on one that turns out damaged, and
    // who finds it ends the chief.
    const bool while_running = !IsIncremental(seed) && !IsGentle(seed);
    storage_.Damaging({.when_found = 0.8,
                       .when_read = while_running ? 0.5 : 0,
                       .random = &damage_});
  }

  // Another run of the job, on another number of servers, which begins with
  // what `trained` has at its end.
  IntegerRun(const IntegerRun& trained, WorkloadReport so_far)
      : IntegerRun(trained.seed_, Variant::kIntegers, trained.verbose_) {
    report_ = std::move(so_far);
    warm_ = true;
    servers_ = 1 + (trained.servers_ + random_.Below(3)) % 4;
    storage_.StartFrom(std::make_unique<TrainedRun>(trained.storage_));
    report_.status = witness_.BeginWith(trained.witness_);
  }

  // Where keys come and go by themselves, another run follows.
  bool has_follower() const { return job_.has_policy() && !warm_; }

  WorkloadReport Run() {
    const uint64_t steps = job_.batches().size();
    Chaos::Options chaos = {.seed = seed_,
                            .chunks = ChunksOf(0.7 * steps),
                            .faults = 8 + random_.Below(8),
                            .join = true,
                            .leave = true,
                            .kill_chief = true,
                            .end_after_pushes = DrawEnd(0.5, 0.8),
                            .chief_dies_by = DrawEnd(0.3, 0.6)};
    if (IsGentle(seed_)) {
      chaos.faults = random_.Below(8);
      chaos.gentle = true;
      chaos.kill_chief = false;
      if (random_.Chance(0.5)) chaos.end_after_pushes = 0;
    }
    servers_ = 3 + static_cast<uint32_t>(random_.Below(2));
    RunLife(seed_, chaos);
    if (storage_.finished() || !report_.status.ok()) return Done();
    report_.resumed = true;
    chaos.seed = seed_ + (uint64_t{1} << 32);
    chaos.chunks = ChunksOf(0.4 * steps);
    chaos.faults /= 2;
    chaos.kill_chief = false;
    chaos.end_after_pushes = 0;
    servers_ = 3 + static_cast<uint32_t>(random_.Below(2));
    RunLife(chaos.seed, chaos);
    report_.complete = report_.resumed && !IsGentle(seed_);
    return Done();
  }

  // In one life.
  WorkloadReport RunWarm() {
    if (!report_.status.ok()) return Done();
    const Chaos::Options chaos = {
        .seed = seed_ + (uint64_t{2} << 32),
        .chunks = ChunksOf(0.5 * job_.batches().size()),
        .faults = 6 + random_.Below(6),
        .join = true,
        .leave = true};
    RunLife(chaos.seed, chaos);
    return Done();
  }

 private:
  // About so many chunks reach servers in so many pushes.
  uint64_t ChunksOf(double pushes) const {
    return static_cast<uint64_t>(pushes * (job_.blocks().size() / 2.0 + 1));
  }

  uint64_t DrawEnd(double from, double to) {
    return static_cast<uint64_t>(job_.batches().size() *
                                 (from + (to - from) * random_.Uniform()));
  }

  Simulation::Options SimulationOptions(uint64_t seed) const {
    RandomStream random(StableHash("network", seed));
    Simulation::Options options;
    options.seed = seed;
    options.faults = Faults::Draw(&random);
    options.verbose = verbose_;
    options.replay_command =
        absl::StrCat("bazel run //tests/sim -- --workload=", NameOf(variant_),
                     " --seed=", seed_, " --verbose");
    return options;
  }

  void RunLife(uint64_t seed, const Chaos::Options& options) {
    Simulation simulation(SimulationOptions(seed));
    IntegerCluster cluster(
        {.seed = seed,
         .servers = servers_,
         .workers = 4 + static_cast<uint32_t>(random_.Below(2)),
         .joined = variant_ == Variant::kJoining ? 2u : 0u,
         .gentle = IsGentle(seed_),
         .last_worker_is_late = true,
         .tight_memory = seed_ % 5 == 3,
         .give_up_after = DrawGiveUp(seed_),
         .warm = warm_,
         .files = variant_ == Variant::kGrowing ? &files_ : nullptr},
        job_, &witness_, &storage_, &simulation);
    const Chaos chaos(options, &cluster, witness_, &storage_, &report_.probes,
                      &simulation);
    if (simulation.Run().ok()) simulation.Fail(witness_.CheckCheckpoints());
    simulation.Fail(files_.CheckLog());
    if (simulation.failure().ok() && storage_.finished()) {
      simulation.Fail(witness_.CheckEnd(IsGentle(seed_), cluster.JobStatus()));
    }
    storage_.SetFull(false);
    report_.status = simulation.failure();
    report_.trace_hash =
        report_.trace_hash * 0x9E3779B97F4A7C15 + simulation.trace_hash();
    report_.events += simulation.events();
    report_.drained += cluster.drained();
    if (cluster.intrusions_refused() > 0) {
      report_.probes.Hit("a spoiled chunk is refused",
                         cluster.intrusions_refused());
    }
    report_.hits +=
        chaos.hits() + simulation.fault_counts().OfType("PushRequest");
    report_.faults.Add(simulation.fault_counts());
  }

  uint64_t CountBased() const {
    uint64_t based = 0;
    for (const v1::Manifest& manifest : storage_.committed()) {
      based += std::any_of(manifest.files().begin(), manifest.files().end(),
                           [](const auto& file) { return file.has_base(); });
    }
    return based;
  }

  WorkloadReport Done() {
    report_.checkpoints += storage_.committed().size();
    report_.pushes += witness_.ledger().pushes();
    const ContentModel::Counts& counts = witness_.content().counts();
    report_.chunks_applied += counts.chunks_applied;
    const std::pair<const char*, uint64_t> seen[] = {
        {"a block was in already", counts.blocks_repeated},
        {"a block was superseded", counts.blocks_superseded},
        {"a pulled block is unchanged", counts.blocks_unchanged},
        {"a manifest names a partial push", counts.partial_in_manifests},
        {"a manifest has an unfinished push", counts.unfinished_in_manifests},
        {"a push leaves a gap on a restored server", counts.gaps},
        {"an open push is resent to a server's successor",
         witness_.sessions().resent_to_successors()},
        {"a batch is handed out again", witness_.input().handed_out_again()},
        {"a block is forked by a stamp", counts.forked_by_stamp},
        {"a block is forked at the seal", counts.forked_at_seal},
        {"a push before the cut is applied to both copies",
         counts.applied_to_both},
        {"a fork is given up", counts.forks_given_up},
        {"a stamp of an ended snapshot is ignored", counts.late_stamps},
        {"keys get rows", counts.parts_created},
        {"keys lose their rows to others", counts.parts_evicted},
        {"keys get no rows", counts.parts_ignored},
        {"keys are not admitted yet", counts.keys_not_admitted},
        {"keys expire", counts.keys_expired},
        {"a checkpoint has a base", CountBased()},
        {"a server restores from a file with a base", storage_.based_reads()},
        {"a server begins with another run's rows", storage_.trained_reads()},
        {"a file goes through the chief", storage_.fetched()},
        {"a slice goes through the chief", storage_.reads_for_servers()},
        {"a checkpoint is damaged", storage_.damaged()},
        {"a server finds a file damaged", storage_.damage_found()},
        {"a server that came back finds a file damaged",
         storage_.damage_found_alone()},
        {"a checkpoint can't be read now", storage_.unread()},
        {"a loss is reported", witness_.loss().reported()},
        {"a loss is reported of a session that pushed no more",
         witness_.loss().reported_unheard()},
        {"a checkpoint's step is known", witness_.manifests().exact()},
        {"new files are found", files_.found()},
        {"new files are looked for in vain", files_.in_vain()},
    };
    for (const auto& [name, times] : seen) {
      if (times > 0) report_.probes.Hit(name, times);
    }
    if (report_.status.ok() && !storage_.committed().empty()) {
      const auto damage = witness_.DamageOf(storage_.committed().back());
      if (damage.ok()) {
        report_.lost += damage->lost;
        report_.doubled += damage->doubled;
      }
    }
    return std::move(report_);
  }

  const uint64_t seed_;
  const Variant variant_;
  const bool verbose_;
  const FineCut cut_;
  const IntegerJob job_;
  uint32_t servers_ = 0;
  bool warm_ = false;
  SimStorage storage_;
  GrowingFiles files_;
  WorkloadReport report_;
  IntegerWitness witness_;
  RandomStream random_;
  RandomStream blind_;
  RandomStream damage_;
  RandomStream unreadable_;
};

}  // namespace

bool IsGentle(uint64_t seed) { return seed % 8 == 0; }

WorkloadReport RunIntegerWorkload(uint64_t seed, bool verbose) {
  IntegerRun run(seed, Variant::kIntegers, verbose);
  WorkloadReport report = run.Run();
  if (!report.status.ok() || !run.has_follower()) return report;
  return IntegerRun(run, std::move(report)).RunWarm();
}

WorkloadReport RunGrowingWorkload(uint64_t seed, bool verbose) {
  return IntegerRun(seed, Variant::kGrowing, verbose).Run();
}

WorkloadReport RunOverlappingWorkload(uint64_t seed, bool verbose) {
  return IntegerRun(seed, Variant::kOverlapping, verbose).Run();
}

WorkloadReport RunJoiningWorkload(uint64_t seed, bool verbose) {
  return IntegerRun(seed, Variant::kJoining, verbose).Run();
}

}  // namespace paramd
