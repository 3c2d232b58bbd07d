#include "tests/sim/integer_workload.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "coordinator/core/coordinator.h"
#include "proto/refusal.h"
#include "server/core/shard.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/push_ledger.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "worker/core/async_worker.h"

namespace paramd {
namespace {

constexpr uint32_t kServers = 2;
constexpr uint32_t kWorkers = 3;
constexpr char kDigest[] = "digest of the integers";

Simulation::Options SimulationOptions(uint64_t seed, bool verbose) {
  RandomStream random(StableHash("network", seed));
  Simulation::Options options;
  options.seed = seed;
  options.faults = Faults::Draw(&random);
  options.verbose = verbose;
  options.replay_command =
      absl::StrCat("bazel run //tests/sim -- --workload=integers --seed=", seed,
                   " --verbose");
  return options;
}

class IntegerCluster {
 public:
  IntegerCluster(uint64_t seed, bool verbose)
      : job_(seed),
        ledger_(job_),
        simulation_(SimulationOptions(seed, verbose)),
        random_(StableHash("processes", seed)) {
    simulation_.OnRequest(
        [this](PeerId from, PeerId, const google::protobuf::Message& head) {
          FailUnlessOk(ledger_.See(from, head));
        });
    for (uint32_t i = 0; i < kServers; ++i) AddServer(i);
    AddCoordinator();
    for (uint32_t i = 0; i < kWorkers; ++i) AddWorker(i);
    if (random_.Chance(0.3)) CutOffSometimes();
  }

  WorkloadReport Run() {
    WorkloadReport report;
    report.status = simulation_.Run();
    if (report.status.ok()) {
      // Said through the simulation, which adds how to see it again.
      simulation_.Fail(CheckOutcome());
      report.status = simulation_.failure();
    }
    report.trace_hash = simulation_.trace_hash();
    report.events = simulation_.events();
    report.checkpoints = storage_.committed().size();
    report.faults = simulation_.fault_counts();
    return report;
  }

 private:
  void FailUnlessOk(const absl::Status& status) {
    if (!status.ok()) simulation_.Fail(status);
  }

  // Mostly soon, sometimes when the others have long begun.
  absl::Duration DrawStart() {
    return random_.Chance(0.9) ? absl::Seconds(1) : absl::Seconds(30);
  }

  // Up to four times, for less than the lease, from one moment on nobody
  // reaches some node.
  void CutOffSometimes() {
    const std::vector<PeerId> nodes = {
        PeerId::Coordinator(), PeerId::Ps(0),     PeerId::Ps(1),
        PeerId::Worker(0),     PeerId::Worker(1), PeerId::Worker(2)};
    for (uint64_t i = 1 + random_.Below(4); i > 0; --i) {
      const PeerId node = nodes[random_.Below(nodes.size())];
      const absl::Duration time = absl::Milliseconds(random_.Below(8000));
      simulation_.At(absl::Milliseconds(random_.Below(15000)),
                     [this, node, time] { simulation_.CutOff(node, time); });
    }
  }

  void AddServer(uint32_t index) {
    Shard::Options options;
    options.index = index;
    options.incarnation = random_.Bits() | 1;
    options.life_seed = random_.Bits();
    shards_.push_back(std::make_unique<Shard>(options));
    storage_.ServeShard(PeerId::Ps(index), &simulation_);
    simulation_.AddNode(PeerId::Ps(index), shards_.back().get(), DrawStart());
  }

  void AddCoordinator() {
    Coordinator::Options options;
    options.job = job_.config();
    options.job_digest = kDigest;
    options.run_id = "integers-1";
    options.variables = job_.variables();
    options.servers = kServers;
    options.workers = kWorkers;
    options.examples = job_.examples();
    options.nonce_seed = random_.Bits();
    coordinator_ = std::make_unique<Coordinator>(options);
    storage_.ServeCoordinator(PeerId::Coordinator(), &simulation_);
    simulation_.AddNode(PeerId::Coordinator(), coordinator_.get(), DrawStart());
  }

  void AddWorker(uint32_t index) {
    AsyncWorker::Options options;
    options.index = index;
    options.incarnation = random_.Bits() | 1;
    options.job = job_.config();
    options.job_digest = kDigest;
    AsyncWorker* const worker =
        workers_.emplace_back(std::make_unique<AsyncWorker>(options)).get();
    const PeerId self = PeerId::Worker(index);
    simulation_.HandleIo(self, v1::FetchPortion::descriptor(), {},
                         [](Outbox::IoItem) { return IoResult{}; });
    simulation_.HandleIo(
        self, v1::ComputeGradient::descriptor(), {},
        [this, worker](Outbox::IoItem item) {
          return Compute(*worker,
                         static_cast<const v1::ComputeGradient&>(*item.head));
        });
    simulation_.HandleIo(
        self, v1::EvaluateWeights::descriptor(),
        {.shortest = absl::Milliseconds(1), .longest = absl::Seconds(1)},
        [this, worker](Outbox::IoItem item) {
          return Evaluate(*worker,
                          static_cast<const v1::EvaluateWeights&>(*item.head));
        });
    simulation_.AddNode(self, worker);
  }

  void CheckWeights(const AsyncWorker& worker, uint32_t buffer) {
    const auto variables = worker.weights(buffer).variables();
    for (size_t v = 0; v < variables.size(); ++v) {
      FailUnlessOk(job_.CheckNotTorn(v, variables[v]));
    }
  }

  IoResult Compute(const AsyncWorker& worker,
                   const v1::ComputeGradient& request) {
    CheckWeights(worker, request.weights_buffer());
    auto head = std::make_unique<v1::ComputeGradientResult>();
    head->set_loss(0.5);
    head->set_examples(request.end() - request.begin());
    IoResult result;
    result.head = std::move(head);
    result.payload = job_.Gradient({request.epoch(), request.begin()});
    return result;
  }

  IoResult Evaluate(const AsyncWorker& worker,
                    const v1::EvaluateWeights& request) {
    CheckWeights(worker, request.weights_buffer());
    if (request.final()) {
      const auto variables =
          worker.weights(request.weights_buffer()).variables();
      FailUnlessOk(CheckAllBatches([&](size_t v) { return variables[v]; }));
    }
    auto head = std::make_unique<v1::EvaluateWeightsResult>();
    v1::Evaluation* const evaluation = head->mutable_evaluation();
    evaluation->set_epoch(request.epoch());
    evaluation->set_examples(10);
    evaluation->set_correct(request.epoch());
    evaluation->set_final(request.final());
    IoResult result;
    result.head = std::move(head);
    return result;
  }

  template <typename Values>
  absl::Status CheckAllBatches(Values values) const {
    const std::multiset<BatchPlace> all(job_.batches().begin(),
                                        job_.batches().end());
    for (size_t v = 0; v < job_.variables().size(); ++v) {
      RETURN_IF_ERROR(job_.CheckValues(v, values(v), all));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutcome() {
    if (storage_.committed().empty() || storage_.results().size() != 1) {
      return absl::DataLossError(
          absl::StrCat(storage_.committed().size(), " checkpoints and ",
                       storage_.results().size(), " results were written"));
    }
    for (const v1::LogEntry& entry : storage_.log()) {
      if (entry.has_fence()) {
        return absl::DataLossError(
            absl::StrCat("worker-", entry.fence().worker(), " was fenced"));
      }
    }
    const v1::Manifest& last = storage_.committed().back();
    if (last.global_step() != job_.batches().size() ||
        storage_.results()[0].global_step() != job_.batches().size()) {
      return absl::DataLossError(absl::StrCat("the job ended at step ",
                                              last.global_step(), " of ",
                                              job_.batches().size()));
    }
    for (const v1::Manifest& manifest : storage_.committed()) {
      const absl::Status status = CheckCheckpoint(manifest);
      if (!status.ok()) {
        return absl::Status(
            status.code(),
            absl::StrCat("checkpoint ", VersionName(manifest.snapshot()), ": ",
                         status.message()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckCheckpoint(const v1::Manifest& manifest) {
    ASSIGN_OR_RETURN(const std::multiset<BatchPlace> batches,
                     ledger_.BatchesUpTo(manifest));
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
    return CheckInput(manifest.input(), batches);
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

  const IntegerJob job_;
  PushLedger ledger_;
  SimStorage storage_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<AsyncWorker>> workers_;
  Simulation simulation_;
  RandomStream random_;
};

}  // namespace

WorkloadReport RunIntegerWorkload(uint64_t seed, bool verbose) {
  return IntegerCluster(seed, verbose).Run();
}

}  // namespace paramd
