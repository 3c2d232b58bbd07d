#ifndef PARAMD_WORKER_COLLECTIVE_RING_COLLECTIVE_H_
#define PARAMD_WORKER_COLLECTIVE_RING_COLLECTIVE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "compute/device/device_ring.h"
#include "worker/collective/linked_collective.h"

namespace paramd {

// As Accelerator::OpenRing, of the device that this process computes on.
using OpenRing = std::function<absl::StatusOr<std::unique_ptr<DeviceRing>>()>;

// Makes collectives whose members sum by a ring of their devices where each of
// them can open one, and else in host memory. Members are joined by other links
// in any case: there they agree, one gives its ring's id to all, figures are
// gathered, and a lost member is noticed that no device waits for.
//
// All sum in the same way in each collective, since all have heard from all
// what they can. A ring that does not form is not tried again by this process:
// who is in a later collective with it sums in host memory, too. Which way it
// is, and why it is not by devices, a line of the log says when it changes.
//
// Of the computing thread, as Connect of what it makes.
class RingCollectives {
 public:
  struct Options {
    std::string name;  // Of this member, in the others' logs: "worker-1".
    // What a ring may take to form when all members are there.
    absl::Duration patience = absl::Seconds(30);
  };

  // `links` makes the others.
  RingCollectives(Options options, MakeLinked links, OpenRing open);
  ~RingCollectives();

  // As MakeLinked.
  absl::StatusOr<std::unique_ptr<LinkedCollective>> Make(size_t rank,
                                                         size_t size);

 private:
  friend class RingCollective;
  struct State;  // What a process knows of the collectives that it had.

  const MakeLinked links_;
  const std::shared_ptr<State> state_;  // Of what was made, too.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_RING_COLLECTIVE_H_
