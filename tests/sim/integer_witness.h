#ifndef PARAMD_TESTS_SIM_INTEGER_WITNESS_H_
#define PARAMD_TESTS_SIM_INTEGER_WITNESS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "tests/sim/content_model.h"
#include "tests/sim/input_model.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/loss_model.h"
#include "tests/sim/manifest_model.h"
#include "tests/sim/probes.h"
#include "tests/sim/push_ledger.h"
#include "tests/sim/session_model.h"
#include "tests/sim/simulation.h"
#include "tests/sim/simulation_watcher.h"
#include "tests/sim/storage.h"

namespace paramd {

// Watches a run of an IntegerJob and fails it as soon as something is said that
// can't be true. What must hold, whatever fails and whoever is killed:
//
//  - Three stories of a block are one: see ContentModel.
//  - A push is in every block of every server generation that acknowledged it
//    to its worker: see SessionModel. So what is missing of it later was lost
//    with the memory of a server.
//  - A checkpoint lists as lost just what is: see LossModel. Its two counts of
//    the pushes in a block agree: see PushAudit. Its step is the sum of its
//    cuts: see ManifestModel.
//  - A batch has one owner at a time: see InputModel. So a batch is in a block
//    more often than once only if a worker was killed that had it.
//  - What must survive is in the log before anybody is told; no generation,
//    configuration or snapshot number is used twice.
//  - A worker is told its generation when every server has it, and is not
//    fenced while it is heard, unless its successor has said that it ended, and
//    it has.
//
// It also notes which rare branches were reached, by what it sees of them.
//
// Not thread-safe. Job, storage and probes outlive it; it outlives the
// simulations that it watches, one after the other.
class IntegerWitness : public SimulationWatcher {
 public:
  IntegerWitness(const IntegerJob& job, const SimStorage& storage,
                 Probes* probes);

  // From here on it watches this simulation.
  void Begin(Simulation* simulation);

  void Sent(const SimProcess& self, PeerId to, const Head& request) override;
  void Received(const SimProcess& self, PeerId from,
                const Head& request) override;
  void Answered(const SimProcess& self, PeerId from, const Head& request,
                const BufferChain& payload,
                const Outbox::ReplyItem& reply) override;
  void Heard(const SimProcess& self, PeerId from, const Head& request,
             const absl::Status& status, const Head* reply) override;
  void Started(const SimProcess& self, const Head& work) override;
  void ClockJumped(PeerId task) override;
  void Noted(const SimProcess& self, absl::string_view note) override;

  // As ContentModel has it.
  absl::Status BeginWith(const IntegerWitness& trained) {
    return content_.BeginWith(trained.content_);
  }

  // Every checkpoint that was committed and not checked yet.
  absl::Status CheckCheckpoints();
  // The last one has every batch, in every block: at least once where no server
  // lost its memory, at most as often as it was handed out; with
  // `exactly_once` just that. `job` is what the coordinator that wrote the last
  // checkpoint says of it.
  absl::Status CheckEnd(bool exactly_once, const v1::JobStats& job) const;

  // Of the newest checkpoint: batches missing in a block, and there more than
  // once.
  struct Damage {
    uint64_t lost = 0;
    uint64_t doubled = 0;
  };
  absl::StatusOr<Damage> DamageOf(const v1::Manifest& manifest) const;

  const PushLedger& ledger() const { return ledger_; }
  const ContentModel& content() const { return content_; }
  const SessionModel& sessions() const { return sessions_; }
  const InputModel& input() const { return input_; }
  const LossModel& loss() const { return loss_; }
  const ManifestModel& manifests() const { return manifests_; }
  // A coordinator holds workers for a snapshot, or has one join that is not
  // answered: what a change of coordinators may hit.
  bool snapshot_open() const { return snapshot_open_; }
  bool join_open() const { return !joining_.empty(); }

 private:
  void ReadLog();
  absl::Status TakenOver(const v1::Configuration& configuration,
                         const v1::SavedInput& left);
  absl::Status GoesOn(const SessionKey& session, const v1::HeldInput& held);
  absl::Status CheckFence(const SimProcess& self, uint32_t worker);
  absl::Status CheckJoined(uint32_t worker, const v1::JoinReply& reply) const;
  void NoteLeftBehind(const v1::JoinRequest& join);
  absl::Status SentByCoordinator(const SimProcess& self, const Head& request);
  absl::Status GivesUp(const SimProcess& self);
  absl::Status GaveUp(const SessionKey& session);
  static absl::Status CheckAudit(const v1::Manifest& manifest);
  absl::Status CheckLogged(const v1::Configuration& configuration);
  absl::Status HeardByWorker(const SimProcess& self, const Head& request,
                             const Head& reply);
  void ProbeRefusal(const SimProcess& self, const Head& request,
                    const absl::Status& status);
  void Check(absl::Status status) { simulation_->Fail(std::move(status)); }

  const IntegerJob& job_;
  const SimStorage& storage_;
  Probes& probes_;
  Simulation* simulation_ = nullptr;
  PushLedger ledger_;
  ContentModel content_;
  InputModel input_;
  SessionModel sessions_;
  LossModel loss_;
  ManifestModel manifests_;
  size_t log_read_ = 0;
  size_t checked_ = 0;  // Checkpoints.
  std::set<uint64_t> terms_logged_;
  std::set<uint64_t> layouts_logged_;     // By term.
  std::set<std::string> retired_logged_;  // By directory.
  std::set<SessionKey> fences_logged_;
  std::map<SessionKey, uint64_t> goes_on_in_;  // The newest term.
  std::set<SessionKey> left_;  // Said that they leave, before they were gone,
  std::set<SessionKey> gone_;  // as the coordinator noted.
  // By term: every session that was told in a configuration of it.
  std::map<uint64_t, std::set<SessionKey>> listed_in_term_;
  std::map<SessionKey, uint64_t> incarnations_;
  std::map<SimProcess, SessionKey> pushed_as_;  // Last.
  std::map<uint64_t, SimProcess> processes_;    // That join, by incarnation,
  std::set<uint64_t> said_ended_;  // and those of which a successor said so.
  // Joins by incarnation and sessions left, and the sessions that were.
  std::set<std::pair<uint64_t, uint64_t>> joins_;
  std::set<SessionKey> left_behind_;
  std::map<SessionKey, Number> first_listed_;     // In which configuration.
  std::map<uint32_t, SessionKey> newest_listed_;  // By worker.
  std::map<uint32_t, Number> server_has_;  // Newest configuration, by index.
  // Which coordinator heard the newest session of each worker last, and when,
  // in simulated time; and when the coordinator's clock was put forward.
  struct LastHeard {
    SessionKey session;
    SimProcess by;
    absl::Duration at;
  };
  std::map<uint32_t, LastHeard> heard_;
  absl::Duration jumped_ = -absl::InfiniteDuration();
  std::set<Number> snapshots_;
  bool snapshot_open_ = false;
  std::set<uint32_t> joining_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTEGER_WITNESS_H_
