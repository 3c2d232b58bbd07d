#ifndef PARAMD_TESTS_SIM_INTRUDER_H_
#define PARAMD_TESTS_SIM_INTRUDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "proto/paramd/v1/data.pb.h"
#include "tensor/core.h"
#include "tests/sim/integer_job.h"

namespace paramd {

// Somebody outside of the job who sends servers chunks that look like those of
// a worker, and of which only the last block is wrong: a server that checks a
// chunk whole refuses it and has changed nothing.
//
// Not thread-safe. The job outlives it.
class Intruder : public Core {
 public:
  static constexpr PeerId kPeer = {PeerId::Kind::kOutside, 0};

  Intruder(const IntegerJob& job, uint64_t seed) : job_(job), random_(seed) {}

  // Spoils a copy of this push of `batch`, to be sent at the next tick.
  void Spoil(PeerId server, const v1::PushRequest& push,
             const BatchPlace& batch);

  void Start(Time, Outbox*) override {}
  // An answer; to a chunk that is wrong there must be none but a refusal.
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override {
    return chunks_.empty() ? Time::Never() : Time();
  }

  uint64_t refused() const { return refused_; }

 private:
  struct Chunk {
    PeerId server;
    v1::PushRequest head;
    std::vector<float> payload;
  };

  void SpoilRows(uint64_t way, Chunk* chunk);

  const IntegerJob& job_;
  RandomStream random_;
  std::vector<Chunk> chunks_;  // To be sent.
  CallId calls_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTRUDER_H_
