#include "tests/sim/stage_workload.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/random.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/stage.pb.h"
#include "proto/refusal.h"
#include "tests/sim/integer_stages.h"
#include "tests/sim/simulation.h"
#include "tests/sim/stage_worker.h"
#include "tests/sim/staged_integers.h"
#include "worker/stages/stage_core.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kStageLease = absl::Seconds(10);
constexpr absl::Duration kStagePatience = absl::Minutes(5);
// A call that is lost is waited for 30 s (kStageDeadline), and then the worker
// says for whom; an operation that is computed for so long is said, too. Pauses
// of the worker itself come in between.
constexpr absl::Duration kLongestSilence = absl::Seconds(150);
constexpr absl::Duration kProbeEvery = absl::Seconds(5);

// A stage process: its core, around what its threads do. Each lane has one, on
// which operations are computed one after the other, whoever asked for them.
class StageNode : public Core {
 public:
  explicit StageNode(const StageCore::Options& options) : core_(options) {}

  // The work of the node.
  IoResult Compute(const Outbox::IoItem& item, std::string* wrong) {
    const auto& request =
        static_cast<const v1::ComputeStageRequest&>(*item.head);
    return lanes_[request.header().lane()].computer.Compute(
        request, item.payload, wrong);
  }

  void Start(Time now, Outbox* out) override { core_.Start(now, out); }
  void Receive(Message message, Time now, Outbox* out) override {
    core_.Receive(std::move(message), now, out);
    Queue(out);
  }
  void Completed(IoResult result, Time now, Outbox* out) override {
    Lane& lane = lanes_[lane_of_[result.io]];
    lane.computes = false;
    core_.Completed(std::move(result), now, out);
    Queue(out);
  }
  void Tick(Time now, Outbox* out) override { core_.Tick(now, out); }
  Time next_tick() const override { return core_.next_tick(); }
  std::string overdue(Time now) const override { return core_.overdue(now); }

 private:
  struct Lane {
    StagedComputer computer;
    bool computes = false;
    std::deque<Outbox::IoItem> waits;
  };

  void Queue(Outbox* out) {
    for (Outbox::IoItem& io : out->ios) {
      const auto& request =
          static_cast<const v1::ComputeStageRequest&>(*io.head);
      const uint32_t lane = request.header().lane();
      lane_of_[io.io] = lane;
      lanes_[lane].waits.push_back(std::move(io));
    }
    out->ios.clear();
    for (auto& [number, lane] : lanes_) {
      if (lane.computes || lane.waits.empty()) continue;
      lane.computes = true;
      out->ios.push_back(std::move(lane.waits.front()));
      lane.waits.pop_front();
    }
  }

  StageCore core_;
  std::map<uint32_t, Lane> lanes_;
  std::map<IoId, uint32_t> lane_of_;
};

// Gives a session to each process of a worker that has no successor yet.
class Sessions : public Core {
 public:
  void Start(Time, Outbox*) override {}
  void Receive(Message message, Time, Outbox* out) override {
    const auto* const join =
        DynamicCastToGenerated<v1::JoinRequest>(message.head);
    if (message.is_reply || join == nullptr) return;
    Given& given = given_[join->task().index()];
    if (join->incarnation() < given.incarnation) {
      return out->Refuse(message.call,
                         Refuse(v1::Refusal::FENCED, "worker",
                                "a newer process of this worker has joined"));
    }
    if (join->incarnation() > given.incarnation) {
      given = {join->incarnation(), given.session + 1};
    }
    auto reply = std::make_unique<v1::JoinReply>();
    reply->mutable_generation()->set_term(1);
    reply->mutable_generation()->set_counter(given.session);
    out->Reply(message.call, std::move(reply));
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time, Outbox*) override {}
  Time next_tick() const override { return Time::Never(); }

  uint64_t newest(uint32_t worker) { return given_[worker].session; }

 private:
  struct Given {
    uint64_t incarnation = 0;
    uint64_t session = 0;
  };
  std::map<uint32_t, Given> given_;
};

// What the seed draws of a job.
struct StagesDraw {
  uint32_t workers = 1;
  uint32_t stages_of_each = 1;  // Processes.
  uint64_t batches = 4;         // Of each worker.
  StageWorker::Options worker;
  absl::Duration longest_work;
  uint64_t faults = 0;
};

StagesDraw DrawStages(RandomStream* random) {
  static constexpr absl::string_view kSchedules[] = {
      "naive", "gpipe", "1f1b", "zero_bubble", "interleaved"};
  StagesDraw draw;
  draw.workers = 1 + static_cast<uint32_t>(random->Below(2));
  draw.stages_of_each = 1 + static_cast<uint32_t>(random->Below(3));
  draw.batches = 3 + random->Below(6);
  StageWorker::Options& worker = draw.worker;
  worker.schedule = std::string(kSchedules[random->Below(5)]);
  worker.stages_per_device = worker.schedule == "interleaved" ? 2 : 1;
  worker.micro_batches = 1 + static_cast<uint32_t>(random->Below(5));
  worker.net.stages = worker.stages_per_device * (draw.stages_of_each + 1);
  worker.net.width = 1 + static_cast<uint32_t>(random->Below(24));
  worker.net.weights = 1 + static_cast<uint32_t>(random->Below(40));
  worker.piece_bytes = uint64_t{16} << random->Below(4);
  worker.evaluates = random->Chance(0.5);
  worker.patience = kStagePatience;
  // Now and then longer than anybody is silent about it.
  draw.longest_work = random->Chance(0.1)
                          ? absl::Seconds(5 + random->Below(40))
                          : absl::Milliseconds(1 << random->Below(9));
  draw.faults = random->Chance(0.15) ? 0 : 1 + random->Below(8);
  return draw;
}

// About how many calls a mini-batch has.
uint64_t CallsOf(const StagesDraw& draw) {
  const StageWorker::Options& worker = draw.worker;
  const uint64_t operations =
      (worker.net.stages - 1) * (2 + 3 * worker.micro_batches);
  const uint64_t bytes = sizeof(int64_t) * worker.net.width;
  return operations * (1 + 2 * bytes / worker.piece_bytes);
}

// Such a network as mini-batches get through, each of which fails with the
// first call that is lost: one that is computed for minutes loses none.
Faults DrawStagesFaults(uint64_t seed, const StagesDraw& draw) {
  RandomStream random(StableHash("stages network", seed));
  Faults faults = Faults::Draw(&random);
  const bool loses = draw.longest_work < absl::Seconds(1) && random.Chance(0.7);
  const double share = loses ? 6 * random.Uniform() / CallsOf(draw) : 0;
  for (double* const chance : {&faults.lose_request, &faults.lose_reply,
                               &faults.duplicate, &faults.ghost}) {
    *chance *= std::min(share, 0.2);
  }
  faults.ghost_delay = absl::Seconds(40);
  return faults;
}

class StagesRun : private SimulationWatcher, private StageJob {
 public:
  StagesRun(uint64_t seed, bool verbose)
      : seed_(seed),
        random_(StableHash("stages", seed)),
        draw_(DrawStages(&random_)),
        simulation_(MakeOptions(seed, verbose)) {
    simulation_.Watch(this);
    simulation_.OnExit(
        [this](const SimProcess& self, const absl::Status& status) {
          return Judge(self, status);
        });
    simulation_.AddNode(PeerId::Coordinator(), &sessions_);
    for (uint32_t w = 0; w < draw_.workers; ++w) {
      trained_.push_back(0);
      ends_.push_back(false);
      weights_.emplace_back(draw_.worker.net.stages,
                            std::vector<float>(draw_.worker.net.weights));
      for (auto& stage : weights_.back()) {
        for (float& one : stage) one = static_cast<float>(random_.Below(8191));
      }
      for (uint32_t i = 0; i < draw_.stages_of_each; ++i) {
        AddStage(w * draw_.stages_of_each + i);
      }
      AddWorker(w);
    }
    PlanFaults();
    simulation_.At(kProbeEvery, [this] { Probe(); });
  }

  StagesReport Run() {
    if (simulation_.Run().ok() && !AllHaveEnded()) {
      simulation_.Fail(absl::DataLossError("a worker has not ended"));
    }
    report_.status = simulation_.failure();
    report_.trace_hash = simulation_.trace_hash();
    report_.events = simulation_.events();
    report_.faults = simulation_.fault_counts();
    report_.pushes = report_.trained;
    report_.complete = report_.status.ok();
    return report_;
  }

 private:
  struct Process {
    uint32_t index = 0;
    uint64_t life = 0;
    std::unique_ptr<StageWorker> core;
  };

  Simulation::Options MakeOptions(uint64_t seed, bool verbose) const {
    Simulation::Options options;
    options.seed = seed;
    options.faults = DrawStagesFaults(seed, draw_);
    options.verbose = verbose;
    // A stage that nobody told of the end waits for ten minutes.
    options.stall_limit = absl::Minutes(15);
    options.replay_command =
        absl::StrCat("bazel run //tests/sim -- --workload=stages --seed=", seed,
                     " --verbose");
    return options;
  }

  // ---- processes

  void AddStage(uint32_t index) {
    StageCore::Options options;
    options.index = index;
    options.worker = index / draw_.stages_of_each;
    options.build = "b";
    options.start_timeout = kStagePatience;
    options.lease = kStageLease;
    options.piece_bytes = draw_.worker.piece_bytes;
    StageNode* const node =
        stages_.emplace_back(std::make_unique<StageNode>(options)).get();
    const PeerId self = PeerId::Stage(index);
    simulation_.HandleIo(self, v1::ComputeStageRequest::descriptor(),
                         {.longest = draw_.longest_work},
                         [this, node](const Outbox::IoItem& item) {
                           std::string wrong;
                           IoResult result = node->Compute(item, &wrong);
                           if (!wrong.empty()) Wrong(wrong);
                           return result;
                         });
    newest_[self] = simulation_.AddNode(self, node);
  }

  void AddWorker(uint32_t index) {
    StageWorker::Options options = draw_.worker;
    options.index = index;
    options.incarnation = ++incarnations_;
    Process& process = workers_.emplace_back();
    process.index = index;
    process.core =
        std::make_unique<StageWorker>(options, static_cast<StageJob*>(this));
    const PeerId self = PeerId::Worker(index);
    process.life = simulation_.AddNode(self, process.core.get());
    newest_[self] = process.life;
  }

  // Unless it is there, or no longer wanted, by then.
  void AddAgain(PeerId self, absl::Duration after) {
    simulation_.At(simulation_.elapsed() + after, [this, self] {
      const uint32_t worker = WorkerOf(self);
      if (ends_[worker] || !down_.erase(self)) return;
      self.kind == PeerId::Kind::kStage ? AddStage(self.index)
                                        : AddWorker(self.index);
    });
  }

  uint32_t WorkerOf(PeerId self) const {
    return self.kind == PeerId::Kind::kStage ? self.index / draw_.stages_of_each
                                             : self.index;
  }

  // How a process may end.
  absl::Status Judge(const SimProcess& self, const absl::Status& status) {
    if (self.peer.kind == PeerId::Kind::kCoordinator) return status;
    const uint32_t worker = WorkerOf(self.peer);
    const bool is_newest = newest_[self.peer] == self.life;
    const bool is_worker = self.peer.kind == PeerId::Kind::kWorker;
    const bool is_trained = trained_[worker] >= draw_.batches;
    if (is_worker && status.ok() && is_trained) {
      if (is_newest) ends_[worker] = true;
      if (AllHaveEnded()) EndSessions();
      return absl::OkStatus();
    }
    // Nobody has told it of the end, or it is of former times.
    if (!is_worker && absl::IsUnavailable(status) &&
        (ends_[worker] || !is_newest)) {
      return absl::OkStatus();
    }
    if (!is_worker && status.ok() && (is_trained || drained_.erase(self))) {
      if (is_newest) ComeBack(self.peer);
      return absl::OkStatus();
    }
    if (is_worker && absl::IsAborted(status) && !is_newest) {
      return absl::OkStatus();
    }
    if (is_worker && absl::IsUnavailable(status) &&
        (absl::StrContains(status.message(), "for a stage: ") ||
         absl::StrContains(status.message(), "each time at a stage")) &&
        absl::StrContains(status.message(), "stage-")) {
      ++report_.given_up;
      if (is_newest) ComeBack(self.peer);
      return absl::OkStatus();
    }
    return status.ok() ? absl::InternalError("ended too early") : status;
  }

  void ComeBack(PeerId self) {
    if (ends_[WorkerOf(self)]) return;
    down_.insert(self);
    AddAgain(self, DrawTime(20));
  }

  bool AllHaveEnded() const {
    return std::count(ends_.begin(), ends_.end(), false) == 0;
  }
  void EndSessions() {
    simulation_.At(simulation_.elapsed(), [this] {
      simulation_.Stop({PeerId::Coordinator()}, absl::OkStatus());
    });
  }

  // ---- what workers train on

  absl::optional<StagedBatch> NextBatch(const StageWorker& worker) override {
    const uint32_t index = worker.options().index;
    if (trained_[index] >= draw_.batches) return absl::nullopt;
    simulation_.NoteProgress();
    return StagedBatch{seed_ * 1000 + index, ++batches_, 1};
  }
  StagedWeights WeightsOf(const StageWorker& worker) override {
    return weights_[worker.options().index];
  }
  StagedBatch TestBatch() override {
    return StagedBatch{seed_ * 1000 + 999, ++batches_, 1};
  }
  // Those of an evaluation stay for some batches: of a process, since it pulled
  // them.
  StagedWeights TestWeights(const StageWorker& worker) override {
    StagedWeights& pulled = test_weights_[worker.options().incarnation];
    if (pulled.empty() || random_.Chance(0.15)) {
      pulled = weights_[worker.options().index];
    }
    return pulled;
  }
  // As servers do: a push of a session that has a successor is refused.
  void Trained(const StageWorker& worker, const StagedWeights& sums) override {
    const uint32_t index = worker.options().index;
    if (worker.session() != sessions_.newest(index)) return;
    ++trained_[index];
    ++report_.trained;
    for (size_t s = 0; s < sums.size(); ++s) {
      for (size_t j = 0; j < sums[s].size(); ++j) {
        float& weight = weights_[index][s][j];
        weight = static_cast<float>(
            Residue(static_cast<int64_t>(weight - sums[s][j])));
      }
    }
  }
  void Evaluated() override { ++report_.evaluated; }
  void BegunAgain() override { ++report_.begun_again; }
  void Wrong(const std::string& what) override {
    simulation_.Fail(absl::DataLossError(what));
  }

  // ---- what is seen

  void Answered(const SimProcess&, PeerId, const Head& request,
                const BufferChain&, const Outbox::ReplyItem& reply) override {
    const auto reason = RefusalOf(reply.status).reason();
    report_.fenced += reason == v1::Refusal::FENCED;
    report_.weights_lost +=
        reason == v1::Refusal::NOT_READY &&
        absl::StrContains(reply.status.message(), "the weights of stage");
    if (!reply.status.ok()) return;
    const std::string& type = request.GetDescriptor()->name();
    report_.pieces += type == "PutStageContentRequest";
    report_.fetched += type == "FetchStageResultRequest";
    const auto* const state =
        DynamicCastToGenerated<v1::ComputeStageReply>(reply.head.get());
    report_.busy +=
        state != nullptr && state->state() == v1::ComputeStageReply::BUSY;
  }
  void Started(const SimProcess&, const Head& work) override {
    const auto* const request =
        DynamicCastToGenerated<v1::ComputeStageRequest>(&work);
    report_.weights_kept +=
        request != nullptr && request->operation().begin().same_weights();
  }
  void Noted(const SimProcess&, absl::string_view note) override {
    report_.owners += absl::StartsWith(note, "computes for worker-");
  }

  // Who waits for long says for whom.
  void Probe() {
    for (const Process& process : workers_) {
      const SimProcess self{PeerId::Worker(process.index), process.life};
      const StageWorker& worker = *process.core;
      if (simulation_.HasEnded(self) || worker.session() == 0) continue;
      const Time now = worker.now();
      if (worker.idle(now) > kLongestSilence &&
          !absl::StrContains(worker.overdue(now), "stage-")) {
        Wrong(absl::StrCat("worker ", process.index, " has done nothing for ",
                           absl::FormatDuration(worker.idle(now)),
                           ", and does not say for which stage it waits"));
      }
    }
    simulation_.At(simulation_.elapsed() + kProbeEvery, [this] { Probe(); });
  }

  // ---- faults

  absl::Duration DrawTime(uint64_t most_seconds) {
    return absl::Milliseconds(random_.Below(1000 * most_seconds + 1));
  }

  // At numbered operations, as they reach stages or are computed.
  void PlanFaults() {
    const uint64_t operations = draw_.workers * draw_.stages_of_each *
                                draw_.batches * draw_.worker.micro_batches * 3;
    for (uint64_t i = 0; i < draw_.faults; ++i) {
      strikes_.insert(1 + random_.Below(operations));
    }
    simulation_.OnMoment([this](Simulation::Moment moment,
                                const SimProcess& self, PeerId,
                                const Head& head) {
      if (self.peer.kind != PeerId::Kind::kStage ||
          head.GetDescriptor() != v1::ComputeStageRequest::descriptor()) {
        return;
      }
      if (moment == Simulation::Moment::kBeforeRequest) ++operations_;
      // At another moment of the same operation, or of the next one.
      if (strikes_.empty() || *strikes_.begin() > operations_ ||
          !random_.Chance(0.3)) {
        return;
      }
      strikes_.erase(strikes_.begin());
      Strike(self.peer);
    });
  }

  void Strike(PeerId stage) {
    const PeerId worker = PeerId::Worker(WorkerOf(stage));
    const PeerId victim = random_.Chance(0.6) ? stage : worker;
    const uint64_t kind = random_.Below(10);
    if (ends_[worker.index] || !simulation_.IsUp(stage) ||
        !simulation_.IsUp(worker)) {
      return;
    }
    ++report_.struck;
    switch (kind) {
      case 0:
      case 1:
        down_.insert(victim);
        simulation_.Crash(victim, random_.Chance(0.3));
        return AddAgain(victim, DrawTime(20));
      case 2:
        down_.insert(victim);
        simulation_.Orphan(victim, DrawTime(10));
        return AddAgain(victim, DrawTime(5));
      case 3:
        return simulation_.Pause(victim, DrawTime(40));
      case 4:
        return simulation_.CutOff(victim, DrawTime(60));
      case 5:
        return victim == stage
                   ? simulation_.CutLink(worker, stage, DrawTime(60))
                   : simulation_.CutLink(stage, worker, DrawTime(60));
      case 6:
        return simulation_.Reset(worker, stage);
      case 7:
        return simulation_.Slow(victim, DrawTime(20));
      case 8:
        return ReplaceWhileItStandsStill(worker);
      default:
        return Drain(stage);
    }
  }

  // And it goes on when its successor stands still, too.
  void ReplaceWhileItStandsStill(PeerId worker) {
    const absl::Duration time = absl::Seconds(5) + DrawTime(30);
    simulation_.Pause(worker, time);
    down_.insert(worker);
    simulation_.Orphan(worker, absl::ZeroDuration());
    AddAgain(worker, DrawTime(3));
    simulation_.At(simulation_.elapsed() + time * random_.Uniform(),
                   [this, worker, time] { simulation_.Pause(worker, time); });
  }

  // It is told to end at once, and another one takes its place.
  void Drain(PeerId stage) {
    const SimProcess self{stage, newest_[stage]};
    simulation_.At(simulation_.elapsed(), [this, self] {
      if (simulation_.HasEnded(self) || !simulation_.IsUp(self.peer)) return;
      drained_.insert(self);
      simulation_.Drain(self.peer);
    });
  }

  const uint64_t seed_;
  RandomStream random_;
  const StagesDraw draw_;
  Sessions sessions_;
  Simulation simulation_;
  std::vector<std::unique_ptr<StageNode>> stages_;  // Of all lives.
  std::deque<Process> workers_;                     // Of all lives.
  std::map<PeerId, uint64_t> newest_;               // Its life.
  std::set<PeerId> down_;                           // Come back.
  std::set<SimProcess> drained_;
  std::vector<uint64_t> trained_;  // By worker.
  std::vector<bool> ends_;         // By worker: it has ended well.
  std::vector<StagedWeights> weights_;
  std::map<uint64_t, StagedWeights> test_weights_;  // By process.
  uint64_t batches_ = 0;
  uint64_t incarnations_ = 0;
  uint64_t operations_ = 0;
  std::multiset<uint64_t> strikes_;
  StagesReport report_;
};

}  // namespace

StagesReport RunStageWorkload(uint64_t seed, bool verbose) {
  return StagesRun(seed, verbose).Run();
}

}  // namespace paramd
