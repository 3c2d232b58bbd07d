#ifndef PARAMD_WORKER_CORE_CLOCK_TELLER_H_
#define PARAMD_WORKER_CORE_CLOCK_TELLER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "tensor/core.h"

namespace paramd {

// Tells every server how far this worker is, in mode BOUNDED: about every
// heartbeat, and at once when it gets input or has none any more. Its pulls and
// pushes say the same; this is for the time between them. What is told is told
// again soon, so answers do not matter. In the other modes it sends nothing.
//
// Not thread-safe: part of a worker's core.
class ClockTeller {
 public:
  struct State {
    uint64_t clock = 0;
    bool no_input = false;
  };

  // `every`: positive.
  explicit ClockTeller(absl::Duration every) : every_(every) {}

  // A session begins: its tells are counted from 1.
  void BeginSession();
  void Configure(const v1::Configuration& configuration);

  // Whether something is to be told now.
  bool IsDue(const State& state, Time now) const;
  // Tells it. `next_call` numbers the calls.
  // REQUIRES: IsDue(state, now).
  void Tell(const State& state, const v1::Header& header, Time now,
            CallId* next_call, Outbox* out);
  Time next_tick() const;

 private:
  const absl::Duration every_;
  bool bounded_ = false;
  struct Server {
    uint64_t incarnation;
    uint32_t peer;  // How it is called.
  };
  std::vector<Server> servers_;
  uint64_t number_ = 0;
  absl::optional<bool> last_no_input_;
  Time next_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_CLOCK_TELLER_H_
