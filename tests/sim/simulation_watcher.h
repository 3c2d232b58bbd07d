#ifndef PARAMD_TESTS_SIM_SIMULATION_WATCHER_H_
#define PARAMD_TESTS_SIM_SIMULATION_WATCHER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "tensor/message.h"
#include "tensor/outbox.h"

namespace paramd {

// One life of a task in a simulation.
struct SimProcess {
  PeerId peer;
  uint64_t life = 0;
  friend auto operator<=>(const SimProcess&, const SimProcess&) = default;
};

// Sees what the processes of a simulation do, in the order in which they do it,
// network and storage not involved yet: for models of what must be true. Calls
// nothing of the simulation but Fail.
class SimulationWatcher {
 public:
  using Head = google::protobuf::Message;

  virtual ~SimulationWatcher() = default;

  // A request leaves `self`. Of a configuration that is told as changes, the
  // whole.
  virtual void Sent(const SimProcess& /*self*/, PeerId /*to*/,
                    const Head& /*request*/) {}
  // A request reaches `self`, whose core has not seen it yet.
  virtual void Received(const SimProcess& /*self*/, PeerId /*from*/,
                        const Head& /*request*/) {}
  // `self` answers a request, with what it brought; `reply.head` is null if it
  // refuses.
  virtual void Answered(const SimProcess& /*self*/, PeerId /*from*/,
                        const Head& /*request*/, const BufferChain& /*payload*/,
                        const Outbox::ReplyItem& /*reply*/) {}
  // What became of a request reaches `self`, who sent it; `reply` is null if
  // it failed.
  virtual void Heard(const SimProcess& /*self*/, PeerId /*from*/,
                     const Head& /*request*/, const absl::Status& /*status*/,
                     const Head* /*reply*/) {}
  // `self` asks for work outside its core.
  virtual void Started(const SimProcess& /*self*/, const Head& /*work*/) {}
  // A script put the clock of this task forward.
  virtual void ClockJumped(PeerId /*task*/) {}
  // `self` says something to people.
  virtual void Noted(const SimProcess& /*self*/, absl::string_view /*note*/) {}
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SIMULATION_WATCHER_H_
