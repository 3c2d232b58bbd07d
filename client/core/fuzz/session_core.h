#ifndef PARAMD_CLIENT_CORE_FUZZ_SESSION_CORE_H_
#define PARAMD_CLIENT_CORE_FUZZ_SESSION_CORE_H_

#include "client/core/session.h"
#include "client/core/weights.h"
#include "tensor/core.h"

namespace paramd::fuzz {

// A Session as a core of its own: pulls and pushes in turn, variable "a" of two
// elements on ps-0 and "b" of three on ps-1, until it has done so often enough
// or an operation has failed. CHECKs that it holds what was pulled.
//
// Not thread-safe: a core.
class SessionCore : public Core {
 public:
  SessionCore();

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return session_.next_tick(); }

 private:
  void StartNext(Time now, Outbox* out);
  // Starts what comes after what has ended.
  void Advance(Time now, Outbox* out);
  void CheckPulled() const;

  Session session_;
  Weights weights_;
  uint64_t operations_ = 0;
};

}  // namespace paramd::fuzz

#endif  // PARAMD_CLIENT_CORE_FUZZ_SESSION_CORE_H_
