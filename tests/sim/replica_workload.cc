#include "tests/sim/replica_workload.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "coordinator/core/server_places.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tests/sim/balance_witness.h"
#include "tests/sim/chief_script.h"
#include "tests/sim/elected_chiefs.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/keyed_witness.h"
#include "tests/sim/operator_core.h"
#include "tests/sim/overtaken_witness.h"
#include "tests/sim/replica_draws.h"
#include "tests/sim/replica_members.h"
#include "tests/sim/replica_processes.h"
#include "tests/sim/saved_rows.h"
#include "tests/sim/scale_operator.h"
#include "tests/sim/scale_witness.h"
#include "tests/sim/simulation.h"
#include "tests/sim/step_witness.h"
#include "tests/sim/storage.h"
#include "tests/sim/term_witness.h"

namespace paramd {
namespace {

constexpr uint32_t kReplicaTasks = 3;
constexpr uint32_t kReplicaWorkers = 3;
// Where servers are moved by themselves, far shorter than outside.
constexpr absl::Duration kBalanceRest = absl::Seconds(20);

class ReplicaRun : private SimulationWatcher {
 public:
  enum class Kind { kReplicas, kScaling, kElection };
  ReplicaRun(uint64_t seed, bool verbose, Kind kind)
      : scales_(kind == Kind::kScaling),
        elects_(kind == Kind::kElection),
        random_(StableHash(scales_ ? "scaling" : "replicas", seed)),
        places_(scales_ ? ScalablePlacesOf(kReplicaTasks, 1)
                        : PlacesOf(kReplicaTasks, 1)),
        leaves_(StableHash("replicas leave", seed)),
        chief_(StableHash("replicas' chief", seed)),
        faults_(DrawReplicaNetwork(seed)),
        cut_(DrawReplicaCut(seed)),
        job_(seed, elects_ ? DrawElectionJob(seed) : DrawReplicaJob(seed)),
        changes_mode_(job_.config().staleness() == "sync" &&
                      !job_.is_rounded() && seed % 2 == 0),
        chief_dies_(!IsOfSteps() && (chief_.Chance(0.4) || elects_)),
        operator_(DrawReplicaSettings(seed)),
        scaler_(
            scales_ ? DrawScales(seed, kReplicaTasks)
                    : std::vector<ScaleOperator::Step>(),
            [this] { return IsProtected(); },
            [this](uint32_t tasks) {
              ++report_.scales_asked;
              scaled_.Asked(tasks);
            },
            [this](uint32_t tasks) {
              ++report_.scales;
              scaled_.Scaled(tasks);
              simulation_.Fail(scaled_.Check(members_.newest()));
            }),
        scaled_(places_),
        balanced_(kBalanceRest),
        simulation_(MakeOptions(seed, verbose)),
        witness_(storage_, &report_,
                 [this](absl::Status status) {
                   simulation_.Fail(std::move(status));
                 }),
        keyed_(job_, places_),
        processes_(MakeProcessOptions(seed), job_, &random_, &chief_, &storage_,
                   &simulation_) {
    if (elects_) {
      elections_ = MakeElections(seed);
      processes_.set_elections(elections_.get());
      script_ = std::make_unique<ChiefScript>(seed, elections_.get(), &members_,
                                              storage_, &simulation_);
    }
    simulation_.Watch(this);
    simulation_.OnExit([this](const SimProcess& self,
                              const absl::Status& status) {
      if (self.peer.kind == PeerId::Kind::kOutside) return absl::OkStatus();
      if (elects_ && self.peer == PeerId::Coordinator()) {
        return elections_->Ended(self, status);
      }
      // Who was cut off from the end finds nobody any more.
      if (!storage_.results().empty()) {
        return absl::IsUnavailable(status) ? absl::OkStatus() : status;
      }
      if (self.peer.kind == PeerId::Kind::kPs &&
          (leaving_.contains(TaskOf(self.peer.index)) ||
           scaled_.MayLeave(TaskOf(self.peer.index)))) {
        return Left(TaskOf(self.peer.index), self.peer.index, status);
      }
      return status.ok() ? absl::InternalError("it ended before the job did")
                         : status;
    });
    simulation_.OnMoment([this](Simulation::Moment moment,
                                const SimProcess& self, PeerId,
                                const google::protobuf::Message& head) {
      KillInAPush(moment, self, head);
    });
    for (uint32_t task = 0; task < kReplicaTasks; ++task) AddTask(task);
    elects_ ? elections_->Begin() : processes_.AddCoordinator();
    // Worker 0 would die with its chief, and leave a push that nobody ends: it
    // comes when the chief dies no more.
    for (uint32_t i = chief_dies_ ? 1 : 0; i < kReplicaWorkers; ++i) {
      processes_.AddWorker(i);
    }
    if (changes_mode_) simulation_.AddNode(Operator(), &operator_);
    if (scales_) simulation_.AddNode(Scaler(), &scaler_);
    absl::Duration at = absl::Seconds(2);
    for (uint64_t i = 1 + random_.Below(4); i > 0; --i) {
      at += absl::Milliseconds(random_.Below(20000));
      simulation_.At(at, [this] { Hurt(); });
    }
    at = absl::Seconds(2);
    for (uint64_t i = leaves_.Below(4); i > 0; --i) {
      at += absl::Milliseconds(leaves_.Below(20000));
      simulation_.At(at, [this] { Leave(); });
    }
    if (!chief_dies_) return;
    at = absl::Seconds(2);
    for (uint64_t i = 1 + chief_.Below(3) + (elects_ ? 2 : 0); i > 0; --i) {
      at += absl::Milliseconds(chief_.Below(elects_ ? 10000 : 30000));
      simulation_.At(at, [this] { elects_ ? script_->Hurt() : KillChief(); });
    }
    simulation_.At(at + absl::Seconds(30), [this] {
      if (elects_) return script_->End([this] { processes_.AddWorker(0); });
      chief_may_die_ = false;
      processes_.AddWorker(0);
    });
  }

  ReplicaReport Run() {
    if (simulation_.Run().ok()) simulation_.Fail(CheckEnd());
    report_.status = simulation_.failure();
    report_.trace_hash = simulation_.trace_hash();
    report_.events = simulation_.events();
    report_.checkpoints = storage_.committed().size();
    report_.settings = operator_.done();
    report_.balanced = balanced_.begun();
    report_.balanced_done = balanced_.done();
    report_.keyed = job_.variables().back().keyed() ? 1 : 0;
    report_.faults = simulation_.fault_counts();
    if (!elects_) return report_;
    report_.chief_kills = script_->hurt();
    report_.elected = elections_->led();
    report_.found_out = elections_->found_out();
    report_.resigned = elections_->resigned();
    report_.refused = elections_->refused();
    return report_;
  }

 private:
  // ---- what is seen
  void Sent(const SimProcess& self, PeerId to, const Head& request) override {
    if (IsOfSteps()) {
      witness_.Sent(self, to, request);
    } else if (job_.variables().back().keyed()) {
      simulation_.Fail(keyed_.Sent(self.peer, request));
    }
    const auto* told = dynamic_cast<const v1::ConfigureRequest*>(&request);
    if (told == nullptr) return;
    const ReplicaMembers::Change change = members_.Told(told->configuration());
    for (const v1::ServerMember& server : change.taken_over) {
      ++report_.take_overs;
      keyed_.TakenOver(server.index(), server.took_over());
      if (change.in_sync_mode) ++report_.of_steps;
    }
    report_.members += change.members;
    if (change.went_back) {
      ++report_.went_back;
      began_anew_ = told->configuration().version().term();
      pushed_.clear();
      keyed_.WentBack(began_anew_, CheckpointOf(told->configuration()));
    }
    simulation_.Fail(scaled_.Check(members_.newest()));
  }
  // Which one its servers begin with.
  absl::optional<v1::Manifest> CheckpointOf(
      const v1::Configuration& configuration) const {
    for (const v1::Manifest& manifest : storage_.committed()) {
      if (configuration.servers(0).restore_directory() ==
          SimStorage::PathOf(manifest.snapshot())) {
        return manifest;
      }
    }
    return absl::nullopt;
  }
  void Answered(const SimProcess& self, PeerId from, const Head& request,
                const BufferChain& payload,
                const Outbox::ReplyItem& reply) override {
    if (IsOfSteps()) {
      witness_.Answered(self, from, request, payload, reply);
    } else if (job_.variables().back().keyed() && reply.head != nullptr) {
      simulation_.Fail(keyed_.Answered(self.peer, request, *reply.head));
    }
    const auto* const push =
        dynamic_cast<const v1::PushReply*>(reply.head.get());
    if (push != nullptr && push->server_generation().term() >= began_anew_) {
      pushed_.insert(ServerOfPlace(places_, self.peer.index));
    }
    if (elects_ && reply.head != nullptr) {
      simulation_.Fail(terms_.Obeyed(self, request));
    }
    const auto* told =
        dynamic_cast<const v1::ConfigureReply*>(reply.head.get());
    if (told != nullptr) {
      simulation_.Fail(members_.Answered(
          ServerOfPlace(places_, self.peer.index), self.peer.index, *told));
    }
    simulation_.Fail(overtaken_.Answered(
        self.peer, ServerOfPlace(places_, self.peer.index), reply.head.get()));
  }

  void Heard(const SimProcess& self, PeerId from, const Head& /*request*/,
             const absl::Status& status, const Head* /*reply*/) override {
    if (self.peer != PeerId::Coordinator() || !status.ok()) return;
    if (from.kind == PeerId::Kind::kPs) members_.Heard(from.index);
  }
  void Noted(const SimProcess& self, absl::string_view note) override {
    if (absl::StrContains(note, " leaves; its backup takes over as")) {
      ++report_.hand_overs;
    }
    for (const uint32_t server : pushed_) {
      if (absl::StartsWith(
              note,
              absl::StrCat("ps-", server, " came back without its shard"))) {
        simulation_.Fail(absl::DataLossError(std::string(note)));
      }
    }
    report_.moves += absl::StrContains(note, " moves; its backup takes over");
    report_.forgotten += absl::StartsWith(note, "this place forgets ");
    if (self.peer != PeerId::Coordinator()) return;
    members_.Noted(note);
    simulation_.Fail(balanced_.Noted(note, simulation_.elapsed()));
    report_.kept += absl::StartsWith(note, "the servers keep what they hold");
    if (absl::StartsWith(note, "all servers go back to step")) {
      simulation_.Fail(absl::DataLossError(std::string(note)));
    }
  }
  void Started(const SimProcess& self, const Head& work) override {
    if (IsOfSteps()) witness_.Started(self, work);
    if (elects_) script_->Started(self, work);
    const auto* append = dynamic_cast<const v1::AppendLog*>(&work);
    if (append == nullptr || !append->entry().has_replicas()) return;
    const v1::ServerMember& server = append->entry().replicas();
    if (!server.has_backup()) members_.Drops(server.index());
    // Elsewhere a process that is down keeps the chief from being killed.
    if (scales_) members_.Logs(server);
  }

  // ---- what is hurt
  bool IsProtected() const {
    return storage_.results().empty() && members_.IsProtected();
  }
  void Hurt() {
    if (!storage_.results().empty()) return;
    const bool scales = scaled_.is_under_way();
    const bool may = scales ? members_.IsNobodyDown() && members_.IsRunning()
                            : IsProtected();
    if (!may) {
      simulation_.At(simulation_.elapsed() + absl::Milliseconds(200),
                     [this] { Hurt(); });
      return;
    }
    const auto task = static_cast<uint32_t>(random_.Below(kReplicaTasks));
    // A server that is being moved has no backup to lose its process to.
    const double kind =
        random_.Uniform() * (scales ? 0.25 : 1) + (scales ? 0.75 : 0);
    if (kind < 0.25) return Kill(task);
    if (kind < 0.75) {
      // The next push that comes by is one too many.
      armed_ = true;
      armed_skips_ = random_.Below(6);
      return;
    }
    // Out of the way of everybody, and back.
    const absl::Duration time = absl::Milliseconds(
        job_.config().lease_ms() + (random_.Chance(0.3) ? 0 : 20000) -
        random_.Below(15000));
    const bool stops = kind < 0.9;
    ++(stops ? report_.pauses : report_.cuts);
    members_.Down(task);
    for (const PeerId place : processes_.PlacesOfTask(task)) {
      stops ? simulation_.Pause(place, time) : simulation_.CutOff(place, time);
    }
    simulation_.At(simulation_.elapsed() + time, [this, task] {
      for (const PeerId place : processes_.PlacesOfTask(task)) {
        members_.OutOfTheWay(place.index);
      }
    });
    simulation_.At(simulation_.elapsed() + time + absl::Seconds(5),
                   [this, task] { members_.Up(task); });
  }
  void KillInAPush(Simulation::Moment moment, const SimProcess& self,
                   const google::protobuf::Message& head) {
    if (!armed_ || self.peer.kind != PeerId::Kind::kPs || !IsProtected() ||
        scaled_.is_under_way()) {
      return;
    }
    const bool is_of_a_push =
        dynamic_cast<const v1::PushRequest*>(&head) != nullptr ||
        dynamic_cast<const v1::ReplicateRequest*>(&head) != nullptr ||
        dynamic_cast<const v1::DecideRequest*>(&head) != nullptr;
    const bool is_around_one = moment == Simulation::Moment::kBeforeRequest ||
                               moment == Simulation::Moment::kAfterRequest;
    if (!is_of_a_push || !is_around_one || armed_skips_-- > 0) return;
    armed_ = false;
    ++report_.at_a_push;
    Kill(TaskOf(self.peer.index));
  }
  void KillChief() {
    if (!chief_may_die_ || !storage_.results().empty()) return;
    if (!members_.IsKnownToHold()) {
      simulation_.At(simulation_.elapsed() + absl::Milliseconds(200),
                     [this] { KillChief(); });
      return;
    }
    ++report_.chief_kills;
    members_.ChiefIsDown();
    balanced_.ChiefIsDown();
    simulation_.Crash(PeerId::Coordinator());
    simulation_.At(
        simulation_.elapsed() + absl::Milliseconds(chief_.Below(5000)),
        [this] { processes_.AddCoordinator(); });
  }
  // ---- elections
  std::unique_ptr<ElectedChiefs> MakeElections(uint64_t seed) {
    ElectedChiefs::Options options;
    options.seed = seed;
    options.coordinator = [this] { return processes_.MakeCoordinator(); };
    return std::make_unique<ElectedChiefs>(std::move(options), &storage_,
                                           &simulation_);
  }

  void Kill(uint32_t task) {
    if (HasLeft(task)) return;  // It is about to be back.
    ++report_.kills;
    members_.Down(task);
    members_.End(task);
    for (const PeerId place : processes_.PlacesOfTask(task)) {
      if (!left_.contains(place.index)) simulation_.Crash(place);
    }
    StartAgain(task, absl::Milliseconds(
                         random_.Below(random_.Chance(0.5) ? 300 : 20000)));
  }

  // ---- who leaves
  // Steps that only a checkpoint has are computed again: there all are handed
  // over.
  void Leave() {
    if (!storage_.results().empty()) return;
    const bool is_protected = IsProtected();
    const auto task = static_cast<uint32_t>(leaves_.Below(kReplicaTasks));
    const bool may =
        !scaled_.is_under_way() &&
        members_.HasBegun(task, simulation_.elapsed()) &&
        (is_protected ||
         (!IsOfSteps() && members_.IsNobodyDown() && members_.IsRunning() &&
          (!elects_ || members_.AreFilled()) && leaves_.Chance(0.2)));
    if (!may) {
      simulation_.At(simulation_.elapsed() + absl::Milliseconds(200),
                     [this] { Leave(); });
      return;
    }
    if (elects_ && is_protected && !script_->IsCutOff() &&
        leaves_.Chance(0.3)) {
      return LeaveAsTheOnlyOne(task);
    }
    members_.Down(task);
    absl::Duration at = simulation_.elapsed();
    if (!IsOfSteps() && leaves_.Chance(0.3)) {
      // Its backup has not all of it when it is to stop.
      for (const v1::ServerMember& server : members_.newest().servers()) {
        if (TaskOf(server.peer()) != task || !server.has_backup()) continue;
        simulation_.CutLink(PeerId::Ps(server.peer()),
                            PeerId::Ps(server.backup().peer()),
                            absl::Seconds(5));
      }
      at += absl::Milliseconds(leaves_.Below(300));
    }
    simulation_.At(at, [this, task] { Drain(task); });
    if (!is_protected || !leaves_.Chance(0.3)) return;
    // In the middle of it.
    at += absl::Milliseconds(leaves_.Below(100));
    simulation_.At(at, [this, task] {
      const bool leaves = leaving_.erase(task) > 0;
      if (leaves && storage_.results().empty()) Kill(task);
    });
  }
  // Whoever it is the backup of is gone, as where a machine vanishes: the chief
  // can't know that yet.
  void LeaveAsTheOnlyOne(uint32_t task) {
    for (const v1::ServerMember& server : members_.newest().servers()) {
      if (TaskOf(server.backup().peer()) != task) continue;
      const uint32_t gone = TaskOf(server.peer());
      const absl::Duration time = absl::Milliseconds(leaves_.Below(3000));
      for (const PeerId place : processes_.PlacesOfTask(gone)) {
        simulation_.CutLink(PeerId::Coordinator(), place, time);
      }
      Kill(gone);
      break;
    }
    members_.Down(task);
    simulation_.At(
        simulation_.elapsed() + absl::Microseconds(leaves_.Below(2000)),
        [this, task] { Drain(task); });
  }
  void Drain(uint32_t task) {
    if (!storage_.results().empty()) return;
    ++report_.drains;
    leaving_.insert(task);
    for (const PeerId place : processes_.PlacesOfTask(task)) {
      simulation_.Drain(place);
    }
  }
  // All its places have.
  bool HasLeft(uint32_t task) const {
    const std::vector<PeerId> places = processes_.PlacesOfTask(task);
    return std::all_of(places.begin(), places.end(), [this](PeerId peer) {
      return left_.contains(peer.index);
    });
  }
  // A place of a task that leaves has ended.
  absl::Status Left(uint32_t task, uint32_t place, const absl::Status& status) {
    members_.Down(task);
    members_.End(task);
    left_.insert(place);
    if (!HasLeft(task) || !status.ok()) return status;
    leaving_.erase(task);
    StartAgain(task, absl::Milliseconds(
                         leaves_.Below(leaves_.Chance(0.5) ? 300 : 10000)));
    return absl::OkStatus();
  }
  void StartAgain(uint32_t task, absl::Duration after) {
    simulation_.At(simulation_.elapsed() + after, [this, task] {
      members_.Up(task);
      if (storage_.results().empty()) AddTask(task);
    });
  }

  uint32_t TaskOf(uint32_t place) const { return TaskOfPlace(places_, place); }
  void AddTask(uint32_t task) {
    const uint64_t incarnation = random_.Bits() | 1;
    members_.Begin(task, incarnation, simulation_.elapsed());
    for (const PeerId place : processes_.PlacesOfTask(task)) {
      left_.erase(place.index);
    }
    processes_.AddTask(task, incarnation);
  }

  // ---- the end
  // Nobody pushes any more.
  absl::Status CheckCopies() {
    for (const v1::ServerMember& server : members_.newest().servers()) {
      if (!members_.MayCompare(server)) continue;
      ++report_.compared;
      if (processes_.ShardAt(server.peer()).Checksum() ==
          processes_.ShardAt(server.backup().peer()).Checksum()) {
        continue;
      }
      return absl::DataLossError(absl::StrCat(
          "the backup of ps-", server.index(), " has other bits in the end"));
    }
    return absl::OkStatus();
  }
  absl::Status CheckEnd() const {
    if (storage_.results().size() != 1 || !processes_.was_evaluated_last()) {
      return absl::DataLossError("the job did not end");
    }
    if (elects_) RETURN_IF_ERROR(elections_->CheckNobodyElseLeads());
    if (!elects_ && report_.kept != report_.chief_kills) {
      return absl::DataLossError(
          absl::StrCat("of ", report_.chief_kills, " new coordinators ",
                       report_.kept, " let servers keep what they held"));
    }
    for (const v1::Manifest& manifest : storage_.committed()) {
      if (!job_.is_rounded()) break;
      RETURN_IF_ERROR(witness_.CheckBits(job_, manifest));
    }
    RETURN_IF_ERROR(CheckKeys(storage_.committed().back()));
    const v1::WriteResult& result = storage_.results().front();
    if (result.pushes_lost() == 0 && result.pushes_doubled() == 0) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat(result.pushes_lost(), " pushes lost and ",
                     result.pushes_doubled(), " doubled, by the accounts"));
  }

  absl::Status CheckKeys(const v1::Manifest& last) const {
    const size_t v = job_.variables().size() - 1;
    if (!job_.variables()[v].keyed()) return absl::OkStatus();
    if (!IsOfSteps()) return keyed_.Check(storage_, last);
    const std::multiset<BatchPlace> all(job_.batches().begin(),
                                        job_.batches().end());
    ASSIGN_OR_RETURN(const SavedRows saved,
                     ReadRows(storage_, job_, last, v, ""));
    RETURN_IF_ERROR(job_.CheckValues(v, saved.numbers, all));
    return job_.CheckKeys(saved.present, all);
  }

  ReplicaProcesses::Options MakeProcessOptions(uint64_t seed) {
    ReplicaProcesses::Options options;
    options.seed = seed;
    options.tasks = kReplicaTasks;
    options.workers = kReplicaWorkers;
    options.places = places_;
    options.scales = scales_;
    options.balances = scales_ && DrawRebalances(seed);
    options.balance_rest = kBalanceRest;
    options.check_end = [this] { return CheckCopies(); };
    return options;
  }
  bool IsOfSteps() const { return job_.config().staleness() == "sync"; }
  Simulation::Options MakeOptions(uint64_t seed, bool verbose) const {
    Simulation::Options options;
    options.seed = seed;
    options.faults = faults_;
    options.verbose = verbose;
    options.tells_ends = true;
    options.stall_limit = absl::Minutes(15);
    options.replay_command = absl::StrCat(
        scales_   ? "bazel run //tests/sim -- --workload=scaling --seed="
        : elects_ ? "bazel run //tests/sim -- --workload=election --seed="
                  : "bazel run //tests/sim:replicas -- --seed=",
        seed, " --verbose");
    return options;
  }

  static constexpr PeerId Operator() { return {PeerId::Kind::kOutside, 1}; }
  static constexpr PeerId Scaler() { return {PeerId::Kind::kOutside, 2}; }

  const bool scales_;
  const bool elects_;
  RandomStream random_;
  const std::vector<ServerPlaces> places_;
  RandomStream leaves_;
  RandomStream chief_;
  const Faults faults_;
  const FineCut cut_;
  const IntegerJob job_;
  const bool changes_mode_;
  const bool chief_dies_;
  OperatorCore operator_;
  ScaleOperator scaler_;
  ScaleWitness scaled_;
  BalanceWitness balanced_;
  SimStorage storage_;
  ReplicaReport report_;
  Simulation simulation_;
  StepWitness witness_;
  KeyedWitness keyed_;
  ReplicaProcesses processes_;
  ReplicaMembers members_;
  OvertakenWitness overtaken_;
  TermWitness terms_;
  std::unique_ptr<ElectedChiefs> elections_;  // Null: there is one chief.
  std::unique_ptr<ChiefScript> script_;       // As that.
  uint64_t began_anew_ = 0;     // In which term all servers did last.
  std::set<uint32_t> pushed_;   // Those that have answered a push since.
  std::set<uint32_t> leaving_;  // Tasks.
  std::set<uint32_t> left_;     // Places of those, and not back.
  bool chief_may_die_ = true;
  bool armed_ = false;
  uint64_t armed_skips_ = 0;
};

}  // namespace

ReplicaReport RunReplicaWorkload(uint64_t seed, bool verbose) {
  return ReplicaRun(seed, verbose, ReplicaRun::Kind::kReplicas).Run();
}

ReplicaReport RunScalingWorkload(uint64_t seed, bool verbose) {
  return ReplicaRun(seed, verbose, ReplicaRun::Kind::kScaling).Run();
}

ReplicaReport RunElectionWorkload(uint64_t seed, bool verbose) {
  return ReplicaRun(seed, verbose, ReplicaRun::Kind::kElection).Run();
}

}  // namespace paramd
