#ifndef PARAMD_WORKER_CORE_WORKER_TURN_H_
#define PARAMD_WORKER_CORE_WORKER_TURN_H_

#include <utility>

#include "base/time.h"
#include "tensor/core.h"

namespace paramd {

// Numbers of a worker's calls and of its work; of all its sessions, so that a
// late answer is never taken for another.
struct WorkerNumbers {
  CallId next_call = 1;
  IoId next_io = 1;
};

// What a worker lends its parts for one event: the time and the way out.
//
// Not thread-safe: lives for one call of the core.
class WorkerTurn {
 public:
  WorkerTurn(Time now, Outbox* out, WorkerNumbers* numbers)
      : now(now), out(out), numbers_(numbers) {}

  const Time now;
  Outbox* const out;

  // A call to the coordinator: the number under which it is answered.
  CallId Call(Outbox::Head head, absl::Duration deadline) {
    const CallId call = numbers_->next_call++;
    out->Send(PeerId::Coordinator(), call, std::move(head), {}, deadline);
    return call;
  }
  IoId StartIo(Outbox::Head head, BufferChain payload = {}) {
    const IoId io = numbers_->next_io++;
    out->StartIo(io, std::move(head), std::move(payload));
    return io;
  }
  CallId* next_call() { return &numbers_->next_call; }

 private:
  WorkerNumbers* const numbers_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_WORKER_TURN_H_
