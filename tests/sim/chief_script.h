#ifndef PARAMD_TESTS_SIM_CHIEF_SCRIPT_H_
#define PARAMD_TESTS_SIM_CHIEF_SCRIPT_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "base/random.h"
#include "tests/sim/elected_chiefs.h"
#include "tests/sim/replica_members.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"

namespace paramd {

// What is done to an elected chief of the workload `election`: see there. Each
// time it waits until the job runs and nobody else is down.
//
// Not thread-safe. What it is made of outlives it.
class ChiefScript {
 public:
  ChiefScript(uint64_t seed, ElectedChiefs* chiefs, ReplicaMembers* members,
              const SimStorage& storage, Simulation* simulation);

  // Once, of what it draws.
  void Hurt();
  // `self` asks for work, before which it may be paused.
  void Started(const SimProcess& self, const google::protobuf::Message& work);
  // Nothing is done any more; `settled` is called once nothing of what was done
  // is under way, and whoever leads has told a configuration.
  void End(std::function<void()> settled);

  // From servers and storage.
  bool IsCutOff() const { return simulation_.elapsed() < cut_off_until_; }
  // How often something was done.
  uint64_t hurt() const { return hurt_; }

 private:
  bool MayBeHurt() const {
    return members_.IsNobodyDown() && members_.IsRunning();
  }
  absl::Duration DrawOutage();
  void MayBeFollowed(absl::Duration time);
  void PauseNow(const SimProcess& self, bool reads);

  RandomStream random_;
  ElectedChiefs& chiefs_;
  ReplicaMembers& members_;
  const SimStorage& storage_;
  Simulation& simulation_;
  bool is_over_ = false;
  absl::Duration cut_off_until_;
  // Before work of that type the chief is paused. Null: it is not.
  const google::protobuf::Descriptor* pauses_before_ = nullptr;
  uint64_t hurt_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_CHIEF_SCRIPT_H_
