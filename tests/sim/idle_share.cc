#include "tests/sim/idle_share.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "coordinator/core/coordinator.h"
#include "server/core/shard.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

constexpr char kIdleDigest[] = "digest of the idle";
// More than it gets through.
constexpr uint64_t kExamples = 1'000'000'000;
// The joins are not part of the window.
constexpr absl::Duration kWarmUp = absl::Seconds(10);

// A worker whose gradients take a time of their own, and how much of the window
// it computed.
class SlowedWorker : public Core {
 public:
  SlowedWorker(const Worker::Options& options, const IdleJob& job)
      : worker_(options),
        job_(job),
        random_(StableHash("slow", job.seed * 1000 + options.index)) {}

  void Start(Time now, Outbox* out) override {
    from_ = now + kWarmUp;
    worker_.Start(now, out);
  }
  void Receive(Message message, Time now, Outbox* out) override {
    worker_.Receive(std::move(message), now, out);
    NoteCompute(*out, now);
  }
  void Completed(IoResult result, Time now, Outbox* out) override {
    if (result.io == compute_) {
      result_ = std::move(result);
    } else {
      worker_.Completed(std::move(result), now, out);
      NoteCompute(*out, now);
    }
  }
  void Tick(Time now, Outbox* out) override {
    if (result_.has_value() && now >= ready_) {
      compute_ = 0;
      worker_.Completed(*std::exchange(result_, absl::nullopt), now, out);
      NoteCompute(*out, now);
      return;
    }
    worker_.Tick(now, out);
    NoteCompute(*out, now);
  }
  Time next_tick() const override {
    const Time next = worker_.next_tick();
    return result_.has_value() ? std::min(next, ready_) : next;
  }

  absl::Duration busy() const { return busy_; }
  uint64_t steps() const { return steps_; }

 private:
  bool IsNextSlow() {
    if (job_.by_chance) return random_.Below(job_.slow_every) == 0;
    const uint64_t place = drawn_++ % job_.slow_every;
    if (place == 0) slow_place_ = random_.Below(job_.slow_every);
    return place == slow_place_;
  }

  void NoteCompute(const Outbox& out, Time now) {
    for (const Outbox::IoItem& io : out.ios) {
      if (io.head->GetDescriptor() == v1::AbandonGradient::descriptor()) {
        Abandon(now);
      }
      if (io.head->GetDescriptor() != v1::ComputeGradient::descriptor()) {
        continue;
      }
      const bool slow = IsNextSlow();
      compute_ = io.io;
      ready_ = now + job_.step * (slow ? job_.slowed : 1);
      const absl::Duration computing = InWindow(now, ready_);
      busy_ += computing;
      if (computing > absl::ZeroDuration()) ++steps_;
    }
  }

  // It ends at once.
  void Abandon(Time now) {
    if (compute_ == 0) return;
    busy_ -= InWindow(now, ready_);
    ready_ = now;
  }

  absl::Duration InWindow(Time begin, Time end) const {
    const Time until = from_ + job_.window;
    return std::clamp(end, from_, until) - std::clamp(begin, from_, until);
  }

  Worker worker_;
  const IdleJob& job_;
  RandomStream random_;
  uint64_t drawn_ = 0;
  uint64_t slow_place_ = 0;  // Of the present `slow_every` steps.
  Time from_;
  IoId compute_ = 0;  // 0: nothing is computed.
  Time ready_;
  absl::optional<IoResult> result_;  // Came, but its time has not.
  absl::Duration busy_;
  uint64_t steps_ = 0;
};

Faults GoodNetwork() {
  Faults faults;
  faults.shortest_delay = absl::Microseconds(5);
  faults.longest_delay = absl::Microseconds(20);
  return faults;
}

class IdleRun {
 public:
  explicit IdleRun(const IdleJob& idle)
      : idle_(idle),
        job_(/*seed=*/2),
        config_(MakeConfig()),
        random_(StableHash("idle", idle.seed)),
        simulation_({.seed = idle.seed,
                     .faults = GoodNetwork(),
                     .event_limit = 50'000'000,
                     .replay_command = "bazel run //tests/sim:idle"}) {
    for (uint32_t i = 0; i < idle_.servers; ++i) AddServer(i);
    AddCoordinator();
    for (uint32_t i = 0; i < idle_.workers; ++i) AddWorker(i);
    simulation_.At(kWarmUp, [this] { steps_before_ = global_step(); });
    simulation_.At(kWarmUp + idle_.window,
                   [this] { steps_behind_ = global_step(); });
    simulation_.At(kWarmUp + idle_.window + absl::Seconds(2),
                   [this] { simulation_.End(); });
  }

  absl::StatusOr<IdleReport> Run() {
    RETURN_IF_ERROR(simulation_.Run());
    IdleReport report;
    absl::Duration busy;
    for (const auto& worker : workers_) {
      busy += worker->busy();
      report.steps += worker->steps();
    }
    report.job_steps = steps_behind_ - steps_before_;
    report.idle_share =
        1 - absl::FDivDuration(busy, idle_.window * idle_.workers);
    return report;
  }

 private:
  uint64_t global_step() const {
    v1::StatusReply status;
    coordinator_->FillStatus(&status);
    return status.job().global_step();
  }

  v1::JobConfig MakeConfig() const {
    v1::JobConfig config = job_.config();
    config.set_staleness(idle_.staleness);
    config.set_backup_workers(idle_.backup_workers);
    config.set_evaluate_every_epochs(0);
    config.set_portion_batches(16);
    config.set_accumulate(1);
    config.set_sync_park_bytes(1 << 30);
    config.set_chunk_bytes(1 << 20);
    config.mutable_checkpoint()->set_every_steps(0);
    return config;
  }

  void AddServer(uint32_t index) {
    Shard::Options options;
    options.index = index;
    options.incarnation = random_.Bits() | 1;
    options.life_seed = random_.Bits();
    shards_.push_back(std::make_unique<Shard>(options));
    storage_.ServeShard(PeerId::Ps(index), &simulation_);
    simulation_.AddNode(PeerId::Ps(index), shards_.back().get());
  }

  void AddCoordinator() {
    Coordinator::Options options;
    options.job = config_;
    options.job_digest = kIdleDigest;
    options.run_id = "idle-1";
    options.variables = job_.variables();
    options.servers = idle_.servers;
    options.workers = idle_.workers;
    options.examples = kExamples;
    options.nonce_seed = random_.Bits();
    coordinator_ = std::make_unique<Coordinator>(options);
    storage_.ServeCoordinator(PeerId::Coordinator(), &simulation_);
    simulation_.AddNode(PeerId::Coordinator(), coordinator_.get());
  }

  void AddWorker(uint32_t index) {
    Worker::Options options;
    options.index = index;
    options.incarnation = random_.Bits() | 1;
    options.job = config_;
    options.job_digest = kIdleDigest;
    options.examples = kExamples;
    workers_.push_back(std::make_unique<SlowedWorker>(options, idle_));
    const PeerId self = PeerId::Worker(index);
    const Simulation::IoDelay at_once = {.longest = absl::Microseconds(10)};
    simulation_.HandleIo(self, v1::FetchPortion::descriptor(), at_once,
                         [](Outbox::IoItem) { return IoResult{}; });
    simulation_.HandleIo(self, v1::AbandonGradient::descriptor(), at_once,
                         [](Outbox::IoItem) { return IoResult{}; });
    simulation_.HandleIo(
        self, v1::ComputeGradient::descriptor(), at_once,
        [this](Outbox::IoItem item) {
          simulation_.NoteProgress();
          return Compute(static_cast<const v1::ComputeGradient&>(*item.head));
        });
    simulation_.AddNode(self, workers_.back().get());
  }

  IoResult Compute(const v1::ComputeGradient& request) const {
    auto head = std::make_unique<v1::ComputeGradientResult>();
    head->set_loss(0.5);
    head->set_examples(request.end() - request.begin());
    IoResult result;
    result.head = std::move(head);
    result.payload = job_.Gradient({request.epoch(), request.begin()});
    return result;
  }

  const IdleJob idle_;
  const FineCut cut_{{.block_elements = 16, .slice_bytes = 128}};
  const IntegerJob job_;
  const v1::JobConfig config_;
  RandomStream random_;
  SimStorage storage_;
  Simulation simulation_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<SlowedWorker>> workers_;
  uint64_t steps_before_ = 0;  // Of the job, before the window,
  uint64_t steps_behind_ = 0;  // and after it.
};

}  // namespace

absl::StatusOr<IdleReport> MeasureIdleShare(const IdleJob& job) {
  return IdleRun(job).Run();
}

}  // namespace paramd
