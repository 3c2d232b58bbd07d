#include "tests/sim/mode_workload.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "config/consistency.h"
#include "proto/refusal.h"
#include "tests/sim/batch_counts.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_cluster.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/operator_core.h"
#include "tests/sim/simulation.h"
#include "tests/sim/step_witness.h"
#include "tests/sim/storage.h"

namespace paramd {
namespace {

using Moment = Simulation::Moment;

enum class Kind { kCalm, kChiefDies, kAnything };

Kind KindOf(uint64_t seed) { return static_cast<Kind>(seed % 3); }
// With entries of the log that take long, so that others join and go meanwhile.
bool ModeHasSlowLog(uint64_t seed) { return seed % 4 == 3; }
bool IsExact(uint64_t seed) { return KindOf(seed) != Kind::kAnything; }

std::string DrawMode(RandomStream* random) {
  switch (random->Below(5)) {
    case 0:
    case 1:
      return "async";
    case 2:
      return absl::StrCat(random->Below(5));
    default:
      return "sync";
  }
}

IntegerJob::Options JobOptions(uint64_t seed) {
  RandomStream random(StableHash("mode lease", seed));
  IntegerJob::Options options;
  options.examples = 400;
  options.staleness = DrawMode(&random);
  options.push_format = IntegerJob::DrawFormat(0.25, &random);
  options.pull_format = IntegerJob::DrawFormat(0.25, &random);
  if (!IsExact(seed)) {
    options.counted = true;
    options.lease = absl::Milliseconds(6000 + random.Below(6000));
  }
  return options;
}

// Counts batches too.
class ModeWitness : public StepWitness {
 public:
  ModeWitness(const SimStorage& storage, WorkloadReport* report, Fail fail,
              BatchCounts* counts)
      : StepWitness(storage, report, std::move(fail)), counts_(*counts) {}

  void Sent(const SimProcess& self, PeerId to, const Head& request) override {
    StepWitness::Sent(self, to, request);
    counts_.Sent(request);
  }

 private:
  BatchCounts& counts_;
};

class ModeRun {
 public:
  ModeRun(uint64_t seed, bool verbose)
      : seed_(seed),
        cut_(DrawCut(seed)),
        job_(seed, JobOptions(seed)),
        random_(StableHash("mode lives", seed)),
        operator_(DrawSettings()),
        simulation_(SimulationOptions(seed, verbose)),
        witness_(
            storage_, &report_,
            [this](absl::Status status) {
              simulation_.Fail(std::move(status));
            },
            &counts_) {}

  WorkloadReport Run() {
    simulation_.Watch(&witness_);
    if (ModeHasSlowLog(seed_)) storage_.SlowLog(absl::Seconds(3));
    IntegerCluster cluster(
        {.seed = seed_,
         .servers = 1 + static_cast<uint32_t>(random_.Below(3)),
         .workers = 2 + static_cast<uint32_t>(random_.Below(3)),
         .gentle = false,
         .last_worker_is_late = random_.Chance(0.2),
         .exact = IsExact(seed_),
         .scaled = false},
        job_, /*witness=*/nullptr, &storage_, &simulation_);
    operator_.WatchStep([this, &cluster]() -> uint64_t {
      if (!simulation_.IsUp(PeerId::Coordinator())) return 0;
      return cluster.JobStatus().global_step();
    });
    simulation_.AddNode({PeerId::Kind::kOutside, 1}, &operator_);
    Plan(&cluster);
    if (simulation_.Run().ok()) simulation_.Fail(Check());
    CountChanges();
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
        "bazel run //tests/sim -- --workload=mode --seed=", seed, " --verbose");
    return options;
  }

  std::vector<OperatorCore::Setting> DrawSettings() {
    RandomStream checkpoints(StableHash("mode checkpoints", seed_));
    std::vector<OperatorCore::Setting> settings;
    absl::Duration at;
    for (uint64_t i = 2 + random_.Below(5); i > 0; --i) {
      at += absl::Milliseconds(500 + random_.Below(4000));
      settings.emplace_back(at, DrawMode(&random_));
      if (!checkpoints.Chance(0.5)) continue;
      settings.emplace_back(at + absl::Milliseconds(checkpoints.Below(2000)),
                            OperatorCore::kCheckpoint);
    }
    return settings;
  }

  void Plan(IntegerCluster* cluster) {
    simulation_.At(absl::Seconds(10), [cluster] { cluster->AddLateWorker(); });
    if (KindOf(seed_) == Kind::kCalm) return;
    deaths_ = 1 + random_.Below(2);
    simulation_.OnMoment([this, cluster](Moment moment, const SimProcess&,
                                         PeerId, const auto& head) {
      MeetChange(cluster, moment, head);
      MeetSave(cluster, head);
    });
    if (KindOf(seed_) == Kind::kChiefDies) return;
    absl::Duration at;
    for (uint64_t faults = 1 + random_.Below(6); faults > 0; --faults) {
      at += absl::Milliseconds(500 + random_.Below(6000));
      const std::vector<PeerId> tasks = cluster->tasks();
      const PeerId victim = tasks[random_.Below(tasks.size())];
      const uint64_t kind = random_.Below(7);
      const absl::Duration time = absl::Milliseconds(random_.Below(12000));
      const bool late = random_.Chance(0.5);
      simulation_.At(at,
                     [=, this] { Strike(cluster, victim, kind, time, late); });
    }
  }

  // The chief dies at some moment of a change: when it was asked, soon after
  // that, or around the entry in the log.
  void MeetChange(IntegerCluster* cluster, Moment moment,
                  const google::protobuf::Message& head) {
    if (deaths_ == 0 || storage_.finished() ||
        !simulation_.IsUp(PeerId::Coordinator())) {
      return;
    }
    const auto* append = dynamic_cast<const v1::AppendLog*>(&head);
    const bool asked = moment == Moment::kAfterRequest &&
                       head.GetDescriptor() == v1::SetRequest::descriptor();
    const bool logged = append != nullptr &&
                        append->entry().has_configuration() &&
                        !storage_.log().empty() &&
                        append->entry().configuration().state() == v1::RUNNING;
    if (!asked && !logged) return;
    if (!random_.Chance(logged ? 0.5 : 0.2)) return;
    --deaths_;
    const bool late = random_.Chance(0.5);
    if (logged) {
      report_.probes.Hit("mode: the chief dies around the entry");
      return KillChief(cluster, late);
    }
    report_.probes.Hit("mode: the chief dies during a change");
    const absl::Duration soon = absl::Milliseconds(random_.Below(400));
    simulation_.At(simulation_.elapsed() + soon,
                   [=, this] { KillChief(cluster, late); });
  }

  // A server dies while the steps of sync mode that was left are not saved:
  // they are computed again on all of them.
  void MeetSave(IntegerCluster* cluster,
                const google::protobuf::Message& head) {
    const auto* append = dynamic_cast<const v1::AppendLog*>(&head);
    // A new coordinator has had all of them restored.
    if (append != nullptr && append->entry().term() > 0) {
      committed_in_sync_.reset();
    }
    if (append != nullptr && append->entry().has_configuration()) {
      const auto mode = append->entry().configuration().consistency().mode();
      const bool leaves = newest_mode_ == v1::Consistency::SYNC;
      if (leaves && mode != v1::Consistency::SYNC) {
        committed_in_sync_ = storage_.committed().size();
      }
      newest_mode_ = mode;
    }
    const bool saves =
        dynamic_cast<const v1::PrepareCheckpoint*>(&head) != nullptr;
    if (!saves || committed_in_sync_ != storage_.committed().size() ||
        !random_.Chance(0.3)) {
      return;
    }
    committed_in_sync_.reset();
    report_.probes.Hit("mode: a server dies before the steps are saved");
    ++report_.hits;
    simulation_.CountFault("kill before a save", "ps");
    std::vector<PeerId> servers = cluster->tasks();
    std::erase_if(servers,
                  [](PeerId task) { return task.kind != PeerId::Kind::kPs; });
    cluster->Kill(servers[random_.Below(servers.size())], random_.Chance(0.5));
  }

  void KillChief(IntegerCluster* cluster, bool late_work) {
    if (storage_.finished()) return;
    ++report_.hits;
    simulation_.CountFault("kill at a change", "chief");
    cluster->Kill(PeerId::Coordinator(), late_work);
  }

  void Strike(IntegerCluster* cluster, PeerId victim, uint64_t kind,
              absl::Duration time, bool late_work) {
    if (storage_.finished()) return;
    static const char* const names[] = {"kill",  "kill",    "replace", "drain",
                                        "pause", "cut off", "slow"};
    simulation_.CountFault(names[kind], PeerName(victim));
    ++report_.hits;
    switch (kind) {
      case 0:
      case 1:
        return cluster->Kill(victim, late_work);
      case 2:
        return cluster->Replace(victim);
      case 3:
        if (victim == PeerId::Coordinator()) return;  // The run would end.
        return cluster->Drain(victim);
      case 4:
        return simulation_.Pause(victim, time);
      case 5:
        return simulation_.CutOff(victim, time);
      default:
        return simulation_.Slow(victim, time);
    }
  }

  // As the log has them.
  void CountChanges() {
    std::string before;
    for (const v1::LogEntry& entry : storage_.log()) {
      if (!entry.has_configuration()) continue;
      const std::string mode =
          StalenessText(entry.configuration().consistency());
      const bool changed = !before.empty() && mode != before;
      if (changed && mode == "sync") report_.probes.Hit("mode: to sync");
      if (changed && before == "sync") report_.probes.Hit("mode: from sync");
      before = mode;
    }
  }

  absl::Status Check() {
    if (!storage_.finished() || storage_.committed().empty()) {
      return absl::DataLossError("the job did not end");
    }
    if (IsExact(seed_)) {
      const uint64_t taken_over = storage_.first_take_over().value_or(
          std::numeric_limits<uint64_t>::max());
      for (const v1::Manifest& manifest : storage_.committed()) {
        if (manifest.snapshot().term() >= taken_over) break;
        const absl::Status status = CheckExact(manifest);
        if (status.ok()) continue;
        return absl::Status(
            status.code(),
            absl::StrCat("checkpoint ", VersionName(manifest.snapshot()), ": ",
                         status.message()));
      }
    }
    if (!IsExact(seed_)) RETURN_IF_ERROR(CheckCounts());
    RETURN_IF_ERROR(CheckRequested());
    for (const v1::WriteResult& result : storage_.results()) {
      const bool lost =
          KindOf(seed_) == Kind::kCalm && result.pushes_lost() > 0;
      if (lost || result.pushes_doubled() > 0) {
        return absl::DataLossError(absl::StrCat(
            "the coordinator counts ", result.pushes_lost(),
            " lost pushes and ", result.pushes_doubled(), " doubled ones"));
      }
    }
    const v1::SavedInput& left = storage_.committed().back().input();
    if (!left.remaining().empty() ||
        left.next_epoch() <= job_.config().epochs()) {
      return absl::DataLossError("the job ended with input left");
    }
    return absl::OkStatus();
  }

  absl::Status CheckRequested() {
    for (const OperatorCore::Checkpoint& asked : operator_.checkpoints()) {
      const v1::CheckpointReply& said = asked.said;
      report_.probes.Hit("mode: an operator has a checkpoint");
      const auto& all = storage_.committed();
      const bool is_there =
          std::any_of(all.begin(), all.end(), [&](const v1::Manifest& m) {
            return m.snapshot() == said.snapshot() &&
                   m.global_step() == said.step() &&
                   SimStorage::PathOf(m.snapshot()) == said.path();
          });
      if (!is_there) {
        return absl::DataLossError(absl::StrCat(
            "an operator was told of checkpoint ", VersionName(said.snapshot()),
            ", '", said.path(), "', which is not there"));
      }
      // Others may have gone back meanwhile.
      if (KindOf(seed_) == Kind::kCalm && said.step() < asked.asked_at) {
        return absl::DataLossError(
            absl::StrCat("an operator asked for a checkpoint at step ",
                         asked.asked_at, " and has one of step ", said.step()));
      }
    }
    return absl::OkStatus();
  }

  // Every checkpoint, and what the job says of the last.
  absl::Status CheckCounts() const {
    for (const v1::Manifest& manifest : storage_.committed()) {
      std::vector<std::vector<float>> values;
      for (const v1::Variable& variable : job_.variables()) {
        ASSIGN_OR_RETURN(values.emplace_back(),
                         storage_.ReadVariable(manifest, variable.name(), ""));
      }
      const absl::Status status = counts_.Check(manifest, values);
      if (status.ok()) continue;
      return absl::Status(
          status.code(),
          absl::StrCat("checkpoint ", VersionName(manifest.snapshot()), ": ",
                       status.message()));
    }
    const v1::Manifest& last = storage_.committed().back();
    const uint64_t lost = BatchCounts::LostIn(last);
    for (const v1::WriteResult& result : storage_.results()) {
      if (result.checkpoint_path() != SimStorage::PathOf(last.snapshot()) ||
          result.pushes_lost() == lost) {
        continue;
      }
      return absl::DataLossError(
          absl::StrCat("the job says that ", result.pushes_lost(),
                       " pushes are lost; its last checkpoint lists ", lost));
    }
    return absl::OkStatus();
  }

  absl::Status CheckExact(const v1::Manifest& manifest) {
    std::multiset<BatchPlace> in;
    for (const BatchPlace& batch : job_.batches()) {
      if (!BatchCounts::IsLeft(batch, manifest.input())) in.insert(batch);
    }
    for (size_t v = 0; v < job_.variables().size(); ++v) {
      ASSIGN_OR_RETURN(
          const std::vector<float> values,
          storage_.ReadVariable(manifest, job_.variables()[v].name(), ""));
      RETURN_IF_ERROR(job_.CheckValues(v, values, in));
    }
    return absl::OkStatus();
  }

  const uint64_t seed_;
  const FineCut cut_;
  const IntegerJob job_;
  RandomStream random_;
  OperatorCore operator_;
  SimStorage storage_;
  WorkloadReport report_;
  uint64_t deaths_ = 0;  // Of the chief, at changes, still to come.
  // As the log has it, or is about to.
  v1::Consistency::Mode newest_mode_ = v1::Consistency::ASYNC;
  // Since sync mode was left, if its steps are not saved.
  absl::optional<size_t> committed_in_sync_;
  Simulation simulation_;
  BatchCounts counts_{job_};
  ModeWitness witness_;
};

}  // namespace

WorkloadReport RunModeWorkload(uint64_t seed, bool verbose) {
  return ModeRun(seed, verbose).Run();
}

}  // namespace paramd
