#ifndef PARAMD_TESTS_SIM_ELECTED_CHIEFS_H_
#define PARAMD_TESTS_SIM_ELECTED_CHIEFS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "coordinator/election/candidacy.h"
#include "coordinator/election/chief_fence.h"
#include "coordinator/election/chief_standing.h"
#include "tensor/core.h"
#include "tests/sim/arbiter.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"

namespace paramd {

// Candidates for the chief's task on machines of their own, and the arbiter
// that elects one of them: what `coordinator/election` decides, between the
// simulation's events. Each machine has one process, which stands, is elected,
// keeps its lease and has a coordinator, until it ends; then another one stands
// there. Whoever follows the chief (`Follow`) reaches the coordinator at the
// address that it heard of last.
//
// Between a process and the arbiter calls take time, and a machine may be cut
// off, in one direction or both. Of those of a process that stands some are
// lost, or arrive long after their sender gave them up; whoever leads loses the
// lead only by what a script does. While the arbiter is asked before work is
// done, no time passes.
//
// Checked of every process, at each work that counts: that it is elected with
// a lease of its own, that no entry of the log follows one of a later chief,
// and that nothing is written after the lease by one that could have known.
//
// Not thread-safe. Simulation and storage outlive it, and run no event after
// it.
class ElectedChiefs {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t machines = 3;
    absl::Duration ttl = absl::Seconds(10);
    // Makes a coordinator, for the process that was elected last.
    std::function<Core*()> coordinator;
  };
  ElectedChiefs(Options options, SimStorage* storage, Simulation* simulation);

  // A process on each machine stands, until the job has its result.
  void Begin();
  // A process of this task begins, and knows the address of the first machine.
  void Follow(PeerId who);

  // A coordinator ended by itself: what is to be made of it, OK for an end that
  // a supervisor answers with another start.
  absl::Status Ended(const SimProcess& chief, const absl::Status& status);

  // ---- what is done to who leads now. REQUIRES: is_led().
  bool is_led() const { return leader_ != nullptr && !leader_->ended; }
  // Of the coordinator.
  bool IsLedBy(const SimProcess& chief) const {
    return is_led() && leader_->life == chief.life;
  }
  // Its process dies, and another one stands on its machine later.
  void Kill();
  // It is told to end.
  void Drain();
  // Nothing happens to it for so long. `at_ask`: from when it asks the arbiter
  // the next time.
  void Pause(absl::Duration time, bool at_ask);
  // Nothing of it reaches the arbiter, nothing comes back, or both.
  enum class Way { kThere, kBack, kBoth };
  void CutOff(Way way, absl::Duration time);
  // Nobody reaches the arbiter.
  void GoAway(absl::Duration time);

  // How many processes led.
  uint64_t led() const { return led_; }
  // Of those, how many ended by themselves, having been followed.
  uint64_t found_out() const { return found_out_; }
  uint64_t resigned() const { return resigned_; }
  // Works that counted and were refused to a former chief.
  uint64_t refused() const { return refused_; }
  // Nothing of what was done to chiefs is under way: who leads holds the key,
  // and is neither paused nor cut off.
  bool IsSettled();
  // An error naming a chief that was followed and goes on.
  absl::Status CheckNobodyElseLeads() const;

 private:
  struct Process {
    uint32_t machine = 0;
    Candidate candidate;
    int64_t lease = 0;  // That it asked for last.
    Time began;
    Time lease_asked;
    std::unique_ptr<ChiefStanding> standing;  // Has no assignment.
    ChiefFence fence;
    uint64_t life = 0;  // Of its coordinator. 0: it has none.
    bool ended = false;
    bool draining = false;
    bool pauses_at_ask = false;
    absl::Duration pause;
    absl::Duration paused_until;
    absl::Duration unaware_until;  // It knows that the arbiter is away.
    absl::Duration followed_at;
  };
  // What it hears of a call, OK or that the arbiter is away.
  using Heard = std::function<void(const absl::Status&)>;

  Time Now() const { return Time() + absl::Seconds(1) + simulation_.elapsed(); }
  absl::Duration Delay();
  void After(absl::Duration delay, std::function<void()> action) {
    simulation_.At(simulation_.elapsed() + delay, std::move(action));
  }
  void Fail(absl::Status status) { simulation_.Fail(std::move(status)); }
  std::string NameOf(const Process& process) const;

  // Calls the arbiter for a machine: `act` is done when the request arrives.
  // `is_lossy`: it may be lost though nobody is cut off.
  void Call(uint32_t machine, bool is_lossy, std::function<void()> act,
            Heard heard);
  // The same for a process, which hears nothing while it is paused, nor when it
  // has ended.
  void CallFor(Process* process, std::function<void()> act, Heard heard);
  void HearWhenAwake(Process* process, const absl::Status& status,
                     const Heard& heard);

  void Stand(uint32_t machine, uint64_t replaces);
  void Look(Process* process);
  void LookAgain(Process* process, absl::Duration delay);
  void Next(Process* process, const absl::optional<ChiefHolder>& found);
  void Create(Process* process);
  // `asked`: when it asked for the lease, at the earliest.
  void Lead(Process* process, uint64_t token, Time asked);
  void RenewLater(Process* process);
  // `asks`: how often in a row, this one included.
  void Renew(Process* process, int asks);
  bool Leads(const Process& process);
  // Asks at once: the answer, or that the arbiter is away.
  absl::StatusOr<bool> AskNow(Process* process);
  absl::Status Hear(Process* process, Time asked,
                    const absl::StatusOr<bool>& answer);
  absl::Status Check(Process* process);
  // Does the coordinator's work, if the fence lets it.
  IoResult Do(Process* process, Outbox::IoItem item,
              const Simulation::IoHandler& handler);
  absl::Status CheckWrites(const Process& process,
                           const google::protobuf::Message& work);
  absl::Status CheckLog(const Process& process,
                        const v1::LogEntry& entry) const;
  // `killed`: somebody saw it end.
  void Over(Process* process, bool killed);

  void Watch(PeerId who);
  void RouteAll();

  const Options options_;
  SimStorage& storage_;
  Simulation& simulation_;
  RandomStream random_;
  SimArbiter arbiter_;
  std::vector<std::unique_ptr<Process>> processes_;  // Of all lives.
  Process* leader_ = nullptr;                        // That was elected last.
  // By machine, until when; followers are on one that is never cut off.
  std::map<uint32_t, absl::Duration> cut_there_;
  std::map<uint32_t, absl::Duration> cut_back_;
  absl::Duration away_until_;
  std::map<PeerId, FollowedChief> followers_;
  std::map<std::string, uint64_t> lives_;  // Of the newest chief, by address.
  uint64_t led_ = 0;
  uint64_t found_out_ = 0;
  uint64_t resigned_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_ELECTED_CHIEFS_H_
