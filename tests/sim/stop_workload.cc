#include "tests/sim/stop_workload.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "proto/refusal.h"
#include "tests/sim/batch_counts.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_cluster.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/operator_core.h"
#include "tests/sim/simulation.h"
#include "tests/sim/simulation_watcher.h"
#include "tests/sim/storage.h"

namespace paramd {
namespace {

bool StopsNow(uint64_t seed) { return seed % 4 == 3; }
bool KillsWorkers(uint64_t seed) { return seed % 2 == 0; }

std::string StalenessOf(uint64_t seed) {
  return seed % 3 == 0 ? "sync" : seed % 3 == 1 ? "async" : "2";
}

// A worker that was killed had pushed what it had not reported: in mode async
// that is computed again.
bool IsExact(uint64_t seed) {
  return !KillsWorkers(seed) || StalenessOf(seed) == "sync";
}

// How far sessions have pushed, and steps were decided.
class PushWitness : public SimulationWatcher {
 public:
  void Sent(const SimProcess&, PeerId, const Head& request) override {
    if (const auto* push = dynamic_cast<const v1::PushRequest*>(&request)) {
      const v1::Header& header = push->header();
      Newest& newest = newest_[header.worker()];
      if (newest.generation < header.generation()) {
        newest = {header.generation(), 0};
      }
      if (newest.generation == header.generation()) {
        newest.push = std::max(newest.push, header.sequence());
      }
    } else if (const auto* join =
                   dynamic_cast<const v1::JoinRequest*>(&request)) {
      // Who was killed has said nothing of its last push.
      if (join->replaces() != 0) newest_.erase(join->task().index());
    } else if (const auto* decide =
                   dynamic_cast<const v1::DecideRequest*>(&request)) {
      step_ = std::max(step_, decide->step());
    }
  }

  // Whether the last checkpoint of a job has all of it.
  absl::Status Check(const v1::Manifest& manifest, bool sync) const {
    if (sync) {
      if (step_ <= manifest.global_step()) return absl::OkStatus();
      return absl::DataLossError(
          absl::StrCat("step ", step_,
                       " was decided; the last checkpoint is "
                       "of step ",
                       manifest.global_step()));
    }
    for (const auto& [worker, newest] : newest_) {
      uint64_t saved = 0;
      for (const v1::SavedSession& session : manifest.sessions()) {
        if (session.worker() == worker &&
            session.generation() == newest.generation) {
          saved = session.sequence();
        }
      }
      if (newest.push <= saved) continue;
      return absl::DataLossError(
          absl::StrCat("worker-", worker, " pushed ", newest.push,
                       " times; the last checkpoint has ", saved, " of it"));
    }
    return absl::OkStatus();
  }

 private:
  struct Newest {
    v1::SessionId generation;
    uint64_t push = 0;
  };
  std::map<uint32_t, Newest> newest_;
  uint64_t step_ = 0;
};

class StopRun {
 public:
  StopRun(uint64_t seed, bool verbose)
      : seed_(seed),
        verbose_(verbose),
        cut_(DrawCut(seed)),
        job_(seed, {.examples = 400, .staleness = StalenessOf(seed)}),
        random_(StableHash("stop", seed)) {}

  WorkloadReport Run() {
    report_.status = LiveUntilStopped();
    if (report_.status.ok() && report_.resumed) {
      report_.status = LiveToTheEnd();
    }
    report_.checkpoints = storage_.committed().size();
    return std::move(report_);
  }

 private:
  Simulation::Options SimulationOptions(uint64_t life) const {
    RandomStream random(StableHash("network", seed_));
    Simulation::Options options;
    options.seed = StableHash("life", seed_ + life);
    options.faults = Faults::Draw(&random);
    options.verbose = verbose_;
    options.replay_command =
        absl::StrCat("bazel run //tests/sim -- --workload=stop --seed=", seed_,
                     " --verbose");
    return options;
  }

  IntegerCluster::Options ClusterOptions(uint64_t life) {
    IntegerCluster::Options options;
    options.seed = StableHash("cluster", seed_ + life);
    options.servers = 1 + static_cast<uint32_t>(random_.Below(3));
    options.workers = 1 + static_cast<uint32_t>(random_.Below(4));
    options.exact = IsExact(seed_);
    return options;
  }

  absl::Status LiveUntilStopped() {
    Simulation simulation(SimulationOptions(1));
    PushWitness witness;
    simulation.Watch(&witness);
    IntegerCluster cluster(ClusterOptions(1), job_, /*witness=*/nullptr,
                           &storage_, &simulation);
    const absl::Duration at = absl::Milliseconds(random_.Below(9000));
    OperatorCore person(
        {{at, StopsNow(seed_) ? OperatorCore::kStopNow : OperatorCore::kStop}});
    simulation.AddNode({PeerId::Kind::kOutside, 1}, &person);
    std::vector<PeerId> there;
    simulation.At(at, [&] {
      for (const PeerId task : cluster.tasks()) {
        if (simulation.IsUp(task)) there.push_back(task);
      }
    });
    if (KillsWorkers(seed_)) Kill(at, &cluster, &simulation);
    const absl::Status lived = simulation.Run();
    report_.trace_hash = simulation.trace_hash();
    report_.events = simulation.events();
    report_.faults.Add(simulation.fault_counts());
    RETURN_IF_ERROR(lived);
    report_.resumed = !cluster.stopped().ok();
    if (report_.resumed) {
      // A worker whose answer is lost without a trace, or late, waits for a
      // chief that is gone by the time it asks again.
      const Faults faults = SimulationOptions(1).faults;
      const bool loses = faults.lose_reply > 0 || faults.straggle > 0;
      for (const PeerId task : there) {
        const bool may_miss = loses && task.kind == PeerId::Kind::kWorker;
        if (!simulation.IsUp(task) || may_miss) continue;
        simulation.Fail(absl::InternalError(absl::StrCat(
            PeerName(task), " did not hear that the job was stopped")));
      }
    }
    simulation.Fail(CheckLife(cluster, person, witness));
    return simulation.failure();
  }

  void Kill(absl::Duration before, IntegerCluster* cluster,
            Simulation* simulation) {
    const uint32_t workers = cluster->options().workers;
    for (uint64_t deaths = 1 + random_.Below(2); deaths > 0; --deaths) {
      if (workers == 1) return;
      const PeerId victim =
          PeerId::Worker(1 + static_cast<uint32_t>(random_.Below(workers - 1)));
      const absl::Duration at =
          before * (static_cast<double>(random_.Below(100)) / 100);
      simulation->At(at, [=, this] {
        if (storage_.finished() || !simulation->IsUp(victim)) return;
        simulation->CountFault("kill", PeerName(victim));
        cluster->Kill(victim, /*late_work=*/false);
      });
    }
  }

  absl::Status CheckLife(const IntegerCluster& cluster,
                         const OperatorCore& person,
                         const PushWitness& witness) {
    if (cluster.stopped().ok()) {
      report_.probes.Hit("stop: the job ended before");
      return storage_.finished()
                 ? absl::OkStatus()
                 : absl::DataLossError("the job is neither stopped nor ended");
    }
    report_.probes.Hit(absl::StrCat("stop: in mode ", StalenessOf(seed_)));
    if (storage_.finished()) {
      return absl::DataLossError("a job that was stopped is finished");
    }
    RETURN_IF_ERROR(CheckAll());
    if (StopsNow(seed_)) return absl::OkStatus();
    const v1::Manifest last = storage_.committed().empty()
                                  ? v1::Manifest()
                                  : storage_.committed().back();
    if (absl::StrContains(person.stopped().message(), "giving up")) {
      return absl::DataLossError("the operator is told of pushes given up");
    }
    return witness.Check(last, StalenessOf(seed_) == "sync");
  }

  absl::Status LiveToTheEnd() {
    Simulation simulation(SimulationOptions(2));
    IntegerCluster cluster(ClusterOptions(2), job_, /*witness=*/nullptr,
                           &storage_, &simulation);
    RETURN_IF_ERROR(simulation.Run());
    simulation.Fail(CheckEnd());
    return simulation.failure();
  }

  absl::Status CheckEnd() const {
    if (!storage_.finished() || storage_.committed().empty()) {
      return absl::DataLossError("the job that goes on does not end");
    }
    const v1::SavedInput& left = storage_.committed().back().input();
    if (!left.remaining().empty() ||
        left.next_epoch() <= job_.config().epochs()) {
      return absl::DataLossError("the job ended with input left");
    }
    return CheckAll();
  }

  absl::Status CheckAll() const {
    for (const v1::Manifest& manifest : storage_.committed()) {
      const absl::Status status = CheckExact(manifest);
      if (status.ok()) continue;
      return absl::Status(
          status.code(),
          absl::StrCat("checkpoint ", VersionName(manifest.snapshot()), ": ",
                       status.message()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckExact(const v1::Manifest& manifest) const {
    if (!IsExact(seed_)) return absl::OkStatus();
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
  const bool verbose_;
  const FineCut cut_;
  const IntegerJob job_;
  RandomStream random_;
  SimStorage storage_;
  WorkloadReport report_;
};

}  // namespace

WorkloadReport RunStopWorkload(uint64_t seed, bool verbose) {
  return StopRun(seed, verbose).Run();
}

}  // namespace paramd
