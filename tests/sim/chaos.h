#ifndef PARAMD_TESTS_SIM_CHAOS_H_
#define PARAMD_TESTS_SIM_CHAOS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "base/random.h"
#include "tests/sim/integer_cluster.h"
#include "tests/sim/integer_witness.h"
#include "tests/sim/probes.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"

namespace paramd {

// A fault script: hurts the processes of a cluster at moments drawn from the
// seed, most of them while a push is open.
//
// Faults come at numbered chunks, counted as they reach servers: just before or
// just after a server applies one, its server, its sender or anybody else is
// killed (with or without its disk), replaced by another process while the
// first goes on, paused, cut off (both ways or one), slowed down, told to
// drain, or its clock jumps; a connection is reset; the storage is full or
// loses results; or whoever does a certain kind of work next dies before or
// after its effect. Besides, once: a worker joins, one leaves, and the chief
// dies while a join or a snapshot is open.
//
// A fault is counted as one that hit an open push if its victim's push was
// open, or any push that needs the victim.
//
// Not thread-safe. All it is given outlives it.
class Chaos {
 public:
  struct Options {
    uint64_t seed = 1;
    // Chunks over which the faults are spread.
    uint64_t chunks = 1000;
    uint64_t faults = 12;
    // Only what nobody dies of: connections, delays shorter than a lease, and
    // processes that are told to drain.
    bool gentle = false;
    bool join = false;        // The cluster's late worker comes.
    bool leave = false;       // A worker is drained or killed.
    bool kill_chief = false;  // While a join or a snapshot is open.
    // Everything ends as soon as so many pushes were sent, the chief has died
    // as wanted, and there is a checkpoint to go on from. 0: never.
    uint64_t end_after_pushes = 0;
    // If no join or snapshot was open by then, a worker is killed, so that its
    // successor joins.
    uint64_t chief_dies_by = 0;  // Pushes.
  };

  Chaos(const Options& options, IntegerCluster* cluster,
        const IntegerWitness& witness, SimStorage* storage, Probes* probes,
        Simulation* simulation);
  Chaos(const Chaos&) = delete;
  Chaos& operator=(const Chaos&) = delete;

  // How many faults hit an open push, those of the network not included.
  uint64_t hits() const { return hits_; }
  // The chief died while a join or a snapshot was open; true if it was not to.
  bool chief_died() const { return !kill_chief_armed_ && !kill_chief_later_; }

 private:
  using Head = google::protobuf::Message;
  struct Fault {
    uint64_t chunk = 0;
    Simulation::Moment moment = Simulation::Moment::kBeforeRequest;
    std::function<void(PeerId server, PeerId sender)> strike;
  };
  // The next work of this type kills its process, or some server; or its
  // process is replaced at once, so that two do the same.
  struct Trap {
    std::string type;
    Simulation::Moment moment;
    bool kills_server = false;
    bool replaces = false;
  };

  void OnMoment(Simulation::Moment moment, const SimProcess& self, PeerId from,
                const Head& head);
  void Plan();
  void Add(uint64_t chunk,
           std::function<void(PeerId server, PeerId sender)> strike);
  void AddDrawn(uint64_t chunk);
  void AddGentle(uint64_t chunk);
  void AddKill(uint64_t chunk);
  void AddSilence(uint64_t chunk);
  void AddStorageFault(uint64_t chunk);
  void AddIntrusions(uint64_t chunk);
  // The server, the sender, or anybody.
  PeerId DrawVictim(PeerId server, PeerId sender);
  absl::Duration DrawTime(int64_t most_ms);
  void Count(const std::string& fault, PeerId victim);
  void Kill(const std::string& fault, PeerId victim);
  bool SpringTrap(Simulation::Moment moment, const SimProcess& self,
                  const Head& head);
  void KillChiefIfOpen();

  const Options options_;
  IntegerCluster& cluster_;
  const IntegerWitness& witness_;
  SimStorage& storage_;
  Probes& probes_;
  Simulation& simulation_;
  RandomStream random_;
  std::vector<Fault> faults_;  // By chunk.
  size_t next_fault_ = 0;
  std::vector<Trap> traps_;
  uint64_t chunks_ = 0;
  uint64_t hits_ = 0;
  const v1::PushRequest* chunk_ = nullptr;  // At hand while faults strike.
  bool kill_chief_later_ = false;
  bool kill_chief_armed_ = false;
  bool join_provoked_ = false;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_CHAOS_H_
