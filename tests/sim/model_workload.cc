#include "tests/sim/model_workload.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "net/in_process_runtime.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"

namespace paramd {

absl::StatusOr<TrainedWeights> TrainModelInProcess(const ModelJob& job) {
  SimStorage storage;
  ModelCluster cluster(job, /*seed=*/0, &storage);
  const std::unique_ptr<Runtime> runtime = MakeInProcessRuntime();
  cluster.ForEachNode(
      [&](PeerId self, Core* core, std::vector<SimStorage::Work> works) {
        runtime->AddCore(self, core);
        for (SimStorage::Work& work : works) {
          runtime->HandleIo(work.type,
                            [handler = std::move(work.handler)](
                                Outbox::IoItem item, Runtime::IoDone done) {
                              done(handler(std::move(item)));
                            });
        }
      });
  RETURN_IF_ERROR(runtime->Run());
  return cluster.Trained();
}

ModelReport RunModelWorkload(const ModelJob& job, uint64_t seed, bool verbose,
                             const TrainedWeights& expected) {
  RandomStream random(StableHash("network", seed));
  Simulation::Options options;
  options.seed = seed;
  options.faults = Faults::Draw(&random);
  options.verbose = verbose;
  options.event_limit = 50'000'000;
  options.replay_command = absl::StrCat("bazel run //tests/sim -- ", job.flags,
                                        " --seed=", seed, " --verbose");
  SimStorage storage;
  ModelCluster cluster(job, seed, &storage);
  Simulation simulation(std::move(options));
  cluster.ForEachNode(
      [&](PeerId self, Core* core, std::vector<SimStorage::Work> works) {
        simulation.AddNode(self, core);
        for (SimStorage::Work& work : works) {
          simulation.HandleIo(self, work.type, {.longest = work.longest},
                              std::move(work.handler));
        }
      });
  TrainedWeights trained;
  if (simulation.Run().ok()) {
    auto newest = cluster.Trained();
    if (newest.ok()) trained = *std::move(newest);
    simulation.Fail(newest.ok() ? CompareWeights(trained, expected)
                                : newest.status());
  }
  return {{.status = simulation.failure(),
           .trace_hash = simulation.trace_hash(),
           .events = simulation.events(),
           .checkpoints = storage.committed().size(),
           .faults = simulation.fault_counts()},
          std::move(trained)};
}

}  // namespace paramd
