#ifndef PARAMD_TENSOR_CORE_H_
#define PARAMD_TENSOR_CORE_H_

#include <string>

#include "base/time.h"
#include "tensor/message.h"
#include "tensor/outbox.h"

namespace paramd {

// The shape of every core: a single-threaded object called with one event and
// the time, which answers by filling an outbox. It has no lock, thread, file,
// socket or clock, so the same object runs behind gRPC, joined to others in one
// process, and under the simulator.
//
// Not thread-safe: all calls come from one thread, or one after the other.
class Core {
 public:
  virtual ~Core() = default;

  // Called once, before anything else.
  virtual void Start(Time now, Outbox* out) = 0;
  // A request from a peer, or the reply to a call this core sent.
  virtual void Receive(Message message, Time now, Outbox* out) = 0;
  // Work started with Outbox::StartIo has ended.
  virtual void Completed(IoResult result, Time now, Outbox* out) = 0;
  // Time has passed. Called at next_tick() or later; may be called earlier.
  virtual void Tick(Time now, Outbox* out) = 0;
  // When Tick is wanted next; Time::Never() if it is not.
  virtual Time next_tick() const = 0;

  // The process is to end soon: finish what is in flight, give back or save
  // what would be lost, then Exit(OK). Whatever has not ended after a while is
  // cut off. Called at most once, after Start.
  virtual void Drain(Time /*now*/, Outbox* out) { out->Exit(absl::OkStatus()); }

  // Whom this core waits for, and why, where that is worth telling people: not
  // the answer that comes any moment. Empty: nobody.
  virtual std::string overdue(Time /*now*/) const { return ""; }

  // Another core of this process has failed, and so the process ends, with
  // `why`: whoever has to tell other processes does so, and then exits. Called
  // at most once, maybe before Start; where nobody else is in the job, not at
  // all.
  virtual void Fail(const absl::Status& /*why*/, Time /*now*/, Outbox* out) {
    out->Exit(absl::OkStatus());
  }
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_CORE_H_
