#ifndef PARAMD_TESTS_SIM_NETWORK_H_
#define PARAMD_TESTS_SIM_NETWORK_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "tensor/core.h"
#include "tests/sim/faults.h"

namespace paramd {

// Nanoseconds between the two, both included; `shortest` if it is the longer.
int64_t DrawNanoseconds(absl::Duration shortest, absl::Duration longest,
                        RandomStream* random);

// What becomes of each message of a simulation: when it arrives and how often,
// and what its sender is told. All is drawn from the simulation's stream, and
// counted where it is a fault. Moments are nanoseconds of simulated time.
//
// Not thread-safe. The stream outlives it.
class SimNetwork {
 public:
  struct Sending {
    PeerId from;
    PeerId to;
    const std::string* type;  // Of a reply: the type of its request.
    int64_t at = 0;
  };
  struct Fate {
    // Empty: it is lost.
    absl::InlinedVector<int64_t, 2> arrives_at;
    // When whoever made the call hears that the connection was lost.
    absl::optional<int64_t> fails_at;
  };

  SimNetwork(const Faults& faults, RandomStream* random);

  // All that `peer` sends and is sent before `until` is lost.
  void CutOff(PeerId peer, int64_t until) { cut_off_until_[peer] = until; }
  // What `from` sends to `to` before `until` is lost.
  void CutLink(PeerId from, PeerId to, int64_t until) {
    cut_link_until_[{from, to}] = until;
  }
  // What `peer` sends and is sent before `until` takes a hundred times as long.
  void Slow(PeerId peer, int64_t until) { slow_until_[peer] = until; }

  // A request that is waited for as long as `patience`.
  Fate OfRequest(const Sending& request, absl::Duration patience);
  Fate OfReply(const Sending& reply);
  // Whether a reply that comes after its call was settled comes through.
  bool AdmitsSecondReply(const std::string& type);

  // How long something takes from one node to another.
  int64_t DrawDelay();
  // The same bytes in buffers of their own, cut at drawn places.
  BufferChain Recut(const BufferChain& payload);

  // A fault that is noticed elsewhere.
  void Count(const std::string& fault, const std::string& type) {
    counts_.Count(fault, type);
  }
  const FaultCounts& counts() const { return counts_; }

 private:
  bool IsCutOff(const Sending& sending) const;
  // When the message arrives.
  int64_t DrawArrival(const Sending& sending);

  const Faults faults_;
  RandomStream& random_;
  std::map<PeerId, int64_t> cut_off_until_;
  std::map<std::pair<PeerId, PeerId>, int64_t> cut_link_until_;
  std::map<PeerId, int64_t> slow_until_;
  FaultCounts counts_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_NETWORK_H_
