#ifndef PARAMD_SERVER_CORE_TESTING_SHARD_BENCH_H_
#define PARAMD_SERVER_CORE_TESTING_SHARD_BENCH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"

#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"
#include "tensor/core.h"

namespace paramd::testing {

// Every check says what the test says.
class SetChecks : public CallChecks {
 public:
  absl::Status CheckRunning() const override { return answer; }
  absl::Status CheckTerm(uint64_t) const override { return answer; }
  absl::Status CheckKnown(const v1::Header&) const override { return answer; }
  absl::Status CheckFilled() const override { return answer; }
  absl::Status CheckStaying() const override { return answer; }
  absl::Status CheckSnapshot(const v1::SnapshotNumber&) const override {
    return answer;
  }
  absl::Status CheckContributors() const override { return answer; }
  absl::Status CheckSession(PeerId, const v1::Header&) const override {
    return answer;
  }
  absl::Status CheckPusher(PeerId, const v1::Header&) const override {
    return answer;
  }

  absl::Status answer;
};

// All that one part of a shard sees, without the others: server 0 of
// MakeConfiguration with the variable "w" of 2 zeros, filled, whose checks let
// everybody in. What a part does is read from `out`. Not thread-safe.
class ShardBench {
 public:
  ShardBench();

  // Empty content, as a new generation begins with.
  void MakeContent();
  void FillContent();

  // Calls a part with a turn of its own; `out` is of that alone.
  template <typename Call>
  void Do(const Call& call) {
    out = Outbox();
    ShardTurn turn(now, &out, view, &data, &next_io);
    call(&turn);
  }

  // A call of worker 1, number `call`. The head outlives the message.
  static Message From(uint32_t worker, CallId call,
                      const google::protobuf::Message& head,
                      BufferChain payload = {});
  // Push `sequence` of worker 1, to all of "w".
  static v1::PushRequest PushOf(uint64_t sequence);
  // The values of "w".
  std::vector<float> Values() const;

  ShardOptions options;
  ShardData data{/*memory_limit_bytes=*/0};
  uint64_t term = 1;
  v1::Configuration configuration;
  v1::ServerLife generation;
  std::map<uint32_t, v1::SessionId> sessions;
  FillState fill_state = FillState::kFilled;
  absl::Status fill_failure;
  absl::Status serving;
  v1::SnapshotNumber drained_by;
  bool draining = false;
  bool finished = false;
  v1::Finished end;
  SetChecks checks;
  const ShardView view;
  IoId next_io = 1;
  Time now = Time::FromNanoseconds(1'000'000'000);
  Outbox out;
};

}  // namespace paramd::testing

#endif  // PARAMD_SERVER_CORE_TESTING_SHARD_BENCH_H_
