#ifndef PARAMD_COORDINATOR_CORE_INPUT_HOLDERS_H_
#define PARAMD_COORDINATOR_CORE_INPUT_HOLDERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "coordinator/core/portions.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Which input the sessions hold that a new coordinator has taken over. Only
// they know it, so nothing is handed out before each has told or is gone.
//
// Not thread-safe: lives inside the coordinator's core.
class InputHolders {
 public:
  // These workers go on, and `left` of the input is not used: what they hold of
  // it included.
  void Await(const v1::SavedInput& left, std::set<uint32_t> workers);

  bool IsAwaited(uint32_t worker) const { return awaited_.contains(worker); }
  // One of them; 0 if nobody is awaited.
  uint32_t awaited() const { return awaited_.empty() ? 0 : *awaited_.begin(); }
  bool complete() const { return awaited_.empty(); }
  // No change if the worker is not awaited. A part that can't be is left out.
  void Told(uint32_t worker, const v1::HeldInput& held);
  // Its session has ended: what it has not used is nobody's. `cut`: what it
  // said last of that, as it left; null: no more than it told.
  void Gone(uint32_t worker, const v1::WorkerCut* cut = nullptr);

  // What nobody holds is to be handed out; the rest is leased to who holds it,
  // as far as it is not used.
  void HandOver(Portions* portions) const;

 private:
  v1::SavedInput left_;
  std::vector<v1::SavedInput::Range> used_;  // By what they told.
  std::set<uint32_t> awaited_;
  std::map<uint32_t, v1::HeldInput> held_;  // By worker.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_INPUT_HOLDERS_H_
