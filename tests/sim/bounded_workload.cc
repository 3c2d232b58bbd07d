#include "tests/sim/bounded_workload.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "config/consistency.h"
#include "coordinator/core/coordinator.h"
#include "server/core/shard.h"
#include "tests/sim/clock_ledger.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/operator_core.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

constexpr char kBoundedDigest[] = "digest of the bounded";
constexpr uint32_t kServers = 2;
constexpr uint32_t kWorkers = 4;
constexpr uint32_t kEpochs = 10;
// A heartbeat that a coordinator acts on was sent within the lease, then took
// its time; what comes of it waits until the server has answered the call
// before.
constexpr absl::Duration kMemory = absl::Seconds(20);

std::string DrawStaleness(RandomStream* random) {
  return random->Chance(0.15) ? "async"
                              : absl::StrCat(uint64_t{1} << random->Below(4),
                                             random->Chance(0.1) ? "0" : "");
}

class BoundedRun : private SimulationWatcher {
 public:
  BoundedRun(uint64_t seed, bool verbose)
      : random_(StableHash("bounded", seed)),
        faults_(DrawFaults(seed)),
        job_(seed),
        config_(MakeConfig()),
        ledger_(kMemory),
        operator_(DrawSettings()),
        simulation_(MakeOptions(seed, verbose)) {
    simulation_.Watch(this);
    simulation_.OnExit([this](const SimProcess&, const absl::Status& status) {
      // Who was cut off from the end finds nobody any more.
      const bool left_behind =
          absl::IsUnavailable(status) && !storage_.results().empty();
      return left_behind ? absl::OkStatus() : status;
    });
    for (uint32_t i = 0; i < kServers; ++i) AddServer(i);
    AddCoordinator();
    for (uint32_t i = 0; i < kWorkers; ++i) {
      // One may come when the others have long begun.
      if (i == kWorkers - 1 && random_.Chance(0.5)) {
        AddWorkerAt(i, DrawTime());
      } else {
        AddWorker(i);
      }
    }
    simulation_.AddNode(PeerId{}, &operator_);
    if (random_.Chance(0.7)) CrashWorkers();
    if (random_.Chance(0.3)) CrashServer();
    if (random_.Chance(0.4)) CutOff();
    if (RandomStream(StableHash("bounded chief", seed)).Chance(0.25)) {
      CrashChief();
    }
  }

  BoundedReport Run() {
    if (simulation_.Run().ok() && storage_.results().size() != 1) {
      simulation_.Fail(absl::DataLossError("the job did not end"));
    }
    simulation_.Fail(CheckModes());
    report_.status = simulation_.failure();
    report_.trace_hash = simulation_.trace_hash();
    report_.events = simulation_.events();
    report_.checkpoints = storage_.committed().size();
    report_.settings = operator_.done();
    report_.faults = simulation_.fault_counts();
    for (const auto& server : servers_) {
      report_.bound.Add(server.witness->counts());
    }
    return report_;
  }

 private:
  void Sent(const SimProcess& self, PeerId, const Head& request) override {
    simulation_.Fail(ledger_.See(self.peer, request, simulation_.elapsed()));
  }
  void Answered(const SimProcess&, PeerId, const Head&, const BufferChain&,
                const Outbox::ReplyItem& reply) override {
    if (const auto* join =
            dynamic_cast<const v1::JoinReply*>(reply.head.get())) {
      ledger_.Told(join->configuration());
    } else if (const auto* news =
                   dynamic_cast<const v1::HeartbeatReply*>(reply.head.get())) {
      ledger_.Told(news->configuration());
    }
  }

  // A new coordinator begins in the mode in which the last one was.
  absl::Status CheckModes() const {
    const v1::Configuration* before = nullptr;
    for (const v1::LogEntry& entry : storage_.log()) {
      if (!entry.has_configuration()) continue;
      const v1::Configuration& now = entry.configuration();
      if (before != nullptr &&
          before->version().term() != now.version().term() &&
          StalenessText(before->consistency()) !=
              StalenessText(now.consistency())) {
        return absl::DataLossError(
            absl::StrCat("term ", now.version().term(), " begins in mode ",
                         StalenessText(now.consistency()), "; it was ",
                         StalenessText(before->consistency())));
      }
      before = &now;
    }
    return absl::OkStatus();
  }

  struct Server {
    std::unique_ptr<Shard> shard;
    std::unique_ptr<BoundWitness> witness;
  };

  v1::JobConfig MakeConfig() {
    v1::JobConfig config = job_.config();
    // Mostly the operator's first word.
    config.set_staleness(absl::StrCat(uint64_t{1} << random_.Below(4)));
    if (random_.Chance(0.2)) config.set_staleness("0");
    config.set_epochs(kEpochs);
    config.set_evaluate_every_epochs(0);
    config.set_lease_ms(10000);
    config.set_park_timeout_ms(random_.Chance(0.5) ? 5000 : 500);
    return config;
  }

  std::vector<OperatorCore::Setting> DrawSettings() {
    std::vector<OperatorCore::Setting> settings;
    absl::Duration at;
    for (uint64_t i = random_.Below(4); i > 0; --i) {
      at += absl::Milliseconds(1000 + random_.Below(15000));
      settings.emplace_back(at, DrawStaleness(&random_));
    }
    return settings;
  }

  static Faults DrawFaults(uint64_t seed) {
    RandomStream random(StableHash("network", seed));
    return Faults::Draw(&random);
  }

  Simulation::Options MakeOptions(uint64_t seed, bool verbose) const {
    Simulation::Options options;
    options.seed = seed;
    options.faults = faults_;
    options.verbose = verbose;
    options.stall_limit = absl::Minutes(15);
    options.replay_command = absl::StrCat(
        "bazel run //tests/sim:bounded -- --seed=", seed, " --verbose");
    return options;
  }

  void AddServer(uint32_t index) {
    Shard::Options options;
    options.index = index;
    options.incarnation = random_.Bits() | 1;
    options.life_seed = random_.Bits();
    Server& server = servers_.emplace_back();
    server.shard = std::make_unique<Shard>(options);
    server.witness = std::make_unique<BoundWitness>(
        server.shard.get(),
        BoundWitness::Options{
            absl::Milliseconds(config_.lease_ms()),
            absl::Milliseconds(config_.park_timeout_ms()),
            [this, index](const absl::Status& status) {
              simulation_.Fail(absl::Status(
                  status.code(),
                  absl::StrCat("at ps-", index, ": ", status.message())));
            }});
    storage_.ServeShard(PeerId::Ps(index), &simulation_);
    simulation_.AddNode(PeerId::Ps(index), server.witness.get());
  }

  void AddCoordinator() {
    Coordinator::Options options;
    options.job = config_;
    options.job_digest = kBoundedDigest;
    options.run_id = "bounded-1";
    options.variables = job_.variables();
    options.servers = kServers;
    options.workers = kWorkers;
    options.examples = job_.examples();
    options.nonce_seed = random_.Bits();
    coordinators_.push_back(std::make_unique<Coordinator>(options));
    storage_.ServeCoordinator(PeerId::Coordinator(), &simulation_);
    simulation_.AddNode(PeerId::Coordinator(), coordinators_.back().get());
  }

  void AddWorkerAt(uint32_t index, absl::Duration at) {
    down_.insert(PeerId::Worker(index));
    simulation_.At(at, [this, index] {
      if (!storage_.results().empty()) return;
      ++report_.joins;
      down_.erase(PeerId::Worker(index));
      AddWorker(index);
    });
  }

  void AddWorker(uint32_t index) {
    Worker::Options options;
    options.index = index;
    options.incarnation = random_.Bits() | 1;
    options.job = config_;
    options.job_digest = kBoundedDigest;
    Worker* const worker =
        workers_.emplace_back(std::make_unique<Worker>(options)).get();
    const PeerId self = PeerId::Worker(index);
    simulation_.HandleIo(self, v1::FetchPortion::descriptor(), {},
                         [](Outbox::IoItem) { return IoResult{}; });
    // Some are always slow, some now and then, some never.
    const auto longest = absl::Milliseconds(20 << random_.Below(6));
    simulation_.HandleIo(
        self, v1::ComputeGradient::descriptor(), {.longest = longest},
        [this](Outbox::IoItem item) {
          return Compute(static_cast<const v1::ComputeGradient&>(*item.head),
                         ValuesOf(item.payload));
        });
    simulation_.HandleIo(
        self, v1::EvaluateWeights::descriptor(), {}, [](Outbox::IoItem item) {
          return Evaluate(static_cast<const v1::EvaluateWeights&>(*item.head));
        });
    simulation_.AddNode(self, worker);
  }

  absl::Duration DrawTime() {
    return absl::Milliseconds(1000 + random_.Below(30000));
  }

  // Up to three times a worker that is not the chief dies; most come back, when
  // nothing that the dead one sent is under way any more: who seems to be alive
  // is not replaced.
  void CrashWorkers() {
    for (uint64_t i = 1 + random_.Below(3); i > 0; --i) {
      const auto index = static_cast<uint32_t>(1 + random_.Below(kWorkers - 1));
      const absl::Duration at = DrawTime();
      const bool comes_back = random_.Chance(0.7);
      const auto after =
          absl::Milliseconds(3000 + random_.Below(12000)) +
          (faults_.ghost > 0 ? faults_.ghost_delay : absl::ZeroDuration());
      simulation_.At(at, [this, index, comes_back, after] {
        if (!IsUp(PeerId::Worker(index))) return;
        Crash(PeerId::Worker(index));
        if (comes_back) AddWorkerAt(index, simulation_.elapsed() + after);
      });
    }
  }

  void CrashServer() {
    const auto index = static_cast<uint32_t>(random_.Below(kServers));
    simulation_.At(DrawTime(), [this, index] {
      if (!IsUp(PeerId::Ps(index))) return;
      Crash(PeerId::Ps(index));
      down_.erase(PeerId::Ps(index));
      AddServer(index);
    });
  }

  // The coordinator and worker-0, which are one process. The next one takes
  // over what servers and workers hold.
  void CrashChief() {
    const auto after =
        absl::Milliseconds(3000 + random_.Below(9000)) +
        (faults_.ghost > 0 ? faults_.ghost_delay : absl::ZeroDuration());
    simulation_.At(DrawTime(), [this, after] {
      if (!IsUp(PeerId::Coordinator()) || !IsUp(PeerId::Worker(0))) return;
      ++report_.chief_crashes;
      Crash(PeerId::Coordinator());
      Crash(PeerId::Worker(0));
      AddWorkerAt(0, simulation_.elapsed() + after);
      simulation_.At(simulation_.elapsed() + after, [this] {
        down_.erase(PeerId::Coordinator());
        AddCoordinator();
      });
    });
  }

  // Long enough that a lease runs out.
  void CutOff() {
    const bool server = random_.Chance(0.5);
    const PeerId node = server
                            ? PeerId::Ps(random_.Below(kServers))
                            : PeerId::Worker(1 + random_.Below(kWorkers - 1));
    const auto time = absl::Milliseconds(random_.Below(20000));
    simulation_.At(DrawTime(), [this, node, time] {
      if (storage_.results().empty()) simulation_.CutOff(node, time);
    });
  }

  bool IsUp(PeerId node) const {
    return storage_.results().empty() && !simulation_.HasExited(node) &&
           down_.count(node) == 0;
  }
  void Crash(PeerId node) {
    ++report_.crashes;
    down_.insert(node);
    simulation_.Crash(node);
  }

  IoResult Compute(const v1::ComputeGradient& request,
                   const std::vector<absl::Span<const float>>& variables) {
    for (size_t v = 0; v < variables.size(); ++v) {
      simulation_.Fail(job_.CheckNotTorn(v, variables[v]));
    }
    auto head = std::make_unique<v1::ComputeGradientResult>();
    head->set_loss(0.5);
    head->set_examples(request.end() - request.begin());
    IoResult result;
    result.head = std::move(head);
    result.payload = job_.Gradient({request.epoch(), request.begin()});
    return result;
  }

  static IoResult Evaluate(const v1::EvaluateWeights& request) {
    auto head = std::make_unique<v1::EvaluateWeightsResult>();
    head->mutable_evaluation()->set_epoch(request.epoch());
    head->mutable_evaluation()->set_examples(10);
    head->mutable_evaluation()->set_final(request.final());
    IoResult result;
    result.head = std::move(head);
    return result;
  }

  RandomStream random_;
  const Faults faults_;
  const FineCut cut_{{.block_elements = 16, .slice_bytes = 128}};
  const IntegerJob job_;
  const v1::JobConfig config_;
  ClockLedger ledger_;
  OperatorCore operator_;
  SimStorage storage_;
  Simulation simulation_;
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;  // Of all lives.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::set<PeerId> down_;
  BoundedReport report_;
};

}  // namespace

BoundedReport RunBoundedWorkload(uint64_t seed, bool verbose) {
  return BoundedRun(seed, verbose).Run();
}

}  // namespace paramd
