#ifndef PARAMD_WORKER_CORE_TESTING_JOINED_WORKER_H_
#define PARAMD_WORKER_CORE_TESTING_JOINED_WORKER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/optional.h"

#include "client/core/testing/configurations.h"
#include "client/core/weights.h"
#include "coordinator/core/testing/core_driver.h"
#include "proto/paramd/v1/data.pb.h"
#include "worker/core/worker.h"

namespace paramd::testing {

// Worker 3 of a job of 2 epochs in batches of 2, 8 batches a portion, heartbeat
// 1 s, start timeout 60 s; variable "a" of two elements on ps-0.
Worker::Options WorkerOptions();

// A worker's core with its servers, coordinator and computing played by the
// test, step by step. Not thread-safe.
class JoinedWorker {
 public:
  explicit JoinedWorker(const Worker::Options& options);

  Worker& core() { return core_; }
  CoreDriver& driver() { return driver_; }

  // The mode of the configurations that it is told; ASYNC unless set.
  void SetMode(v1::Consistency::Mode mode) { mode_ = mode; }

  // ---- the coordinator. Sessions get the generations 1.7, 1.8, ...
  v1::JoinReply MakeJoinReply();
  void Join();
  // Answers the open request for a portion with [begin, end) of epoch 1.
  void GivePortion(uint64_t id, uint64_t begin, uint64_t end);
  void GiveNoMore();
  // Answers the open heartbeat, in term 1 unless it names another. REQUIRES:
  // there is one.
  void AnswerBeat(const v1::HeartbeatReply& news);
  // With news of an open snapshot; zero: of none. A hold says stop, too.
  void AnswerHold(const v1::SnapshotNumber& snapshot);
  void AnswerSnapshot(const v1::SnapshotNumber& snapshot);
  // The newest heartbeat sent, which stays open. REQUIRES: there is one.
  v1::HeartbeatRequest TakeBeat();
  // As a coordinator without news, for that long.
  void KeepBeating(absl::Duration duration);

  // ---- servers
  absl::optional<Outbox::SendItem> TakePull() {
    return driver_.TakeSend<v1::PullRequest>();
  }
  absl::optional<Outbox::SendItem> TakePush() {
    return driver_.TakeSend<v1::PushRequest>();
  }
  static const v1::PullRequest& PullOf(const Outbox::SendItem& sent) {
    return static_cast<const v1::PullRequest&>(*sent.head);
  }
  static const v1::PushRequest& PushOf(const Outbox::SendItem& sent) {
    return static_cast<const v1::PushRequest&>(*sent.head);
  }
  // All elements have this value.
  void AnswerPull(const Outbox::SendItem& sent, float value);
  void AnswerPush(const Outbox::SendItem& sent);
  // That all of it was applied.
  static v1::PushReply PushReplyTo(const Outbox::SendItem& sent);
  // With the weights after it: all elements have this value.
  void AnswerPushWithWeights(const Outbox::SendItem& sent, float value);

  // ---- computing
  // What "a" is in the oldest work of this type; empty: there is none.
  template <typename Work>
  std::vector<float> WeightsFor() const {
    for (const Outbox::IoItem& item : driver_.ios) {
      if (dynamic_cast<const Work*>(item.head.get()) == nullptr) continue;
      const absl::Span<const float> values = ValuesOf(item.payload)[0];
      return {values.begin(), values.end()};
    }
    return {};
  }
  void AnswerCompute(const std::pair<IoId, v1::ComputeGradient>& compute,
                     double loss = 1);

 private:
  Worker core_;
  CoreDriver driver_;
  v1::Consistency::Mode mode_ = v1::Consistency::ASYNC;
  uint64_t joins_ = 0;
  uint64_t life_ = 0;
  absl::optional<Outbox::SendItem> beat_;  // The newest, not answered.
};

}  // namespace paramd::testing

#endif  // PARAMD_WORKER_CORE_TESTING_JOINED_WORKER_H_
