#include "worker/core/testing/joined_worker.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd::testing {

Worker::Options WorkerOptions() {
  Worker::Options options;
  options.index = 3;
  options.incarnation = 55;
  options.replaces = 44;
  options.host = "host";
  options.pid = 4003;
  options.job.set_batch_per_replica(2);
  options.job.set_portion_batches(8);
  options.job.set_epochs(2);
  options.job.set_chunk_bytes(1 << 20);
  options.job.set_start_timeout_ms(60000);
  options.job.set_heartbeat_ms(1000);
  options.job.set_quarantine_limit(3);
  options.job_digest = "digest";
  return options;
}

JoinedWorker::JoinedWorker(const Worker::Options& options)
    : core_(options), driver_(&core_) {
  driver_.Start();
}

// ---- the coordinator --------------------------------------------------------

v1::JoinReply JoinedWorker::MakeJoinReply() {
  v1::JoinReply reply;
  *reply.mutable_generation() = Pair(1, 7 + joins_++);
  *reply.mutable_configuration() = MakeConfiguration({{"a", {2}, 0}}, 1);
  reply.mutable_configuration()->mutable_consistency()->set_mode(mode_);
  return reply;
}

void JoinedWorker::Join() {
  const auto join = driver_.TakeSend<v1::JoinRequest>();
  CHECK(join.has_value(), "the worker asks to join");
  driver_.Reply(*join, MakeJoinReply());
}

void JoinedWorker::GivePortion(uint64_t id, uint64_t begin, uint64_t end) {
  const auto asked = driver_.TakeSend<v1::PortionRequest>();
  CHECK(asked.has_value(), "the worker asks for a portion");
  v1::PortionReply reply;
  reply.set_term(1);
  reply.mutable_portion()->set_id(id);
  reply.mutable_portion()->set_epoch(1);
  reply.mutable_portion()->set_begin(begin);
  reply.mutable_portion()->set_end(end);
  driver_.Reply(*asked, reply);
}

void JoinedWorker::GiveNoMore() {
  const auto asked = driver_.TakeSend<v1::PortionRequest>();
  CHECK(asked.has_value(), "the worker asks for a portion");
  v1::PortionReply reply;
  reply.set_term(1);
  reply.set_no_more(true);
  driver_.Reply(*asked, reply);
}

v1::HeartbeatRequest JoinedWorker::TakeBeat() {
  bool found = false;
  while (auto sent = driver_.TakeSend<v1::HeartbeatRequest>()) {
    beat_ = std::move(sent);
    found = true;
  }
  CHECK(found, "the worker has sent a heartbeat");
  return static_cast<const v1::HeartbeatRequest&>(*beat_->head);
}

void JoinedWorker::AnswerBeat(const v1::HeartbeatReply& news) {
  while (auto sent = driver_.TakeSend<v1::HeartbeatRequest>()) {
    beat_ = std::move(sent);
  }
  CHECK(beat_.has_value(), "a heartbeat is open");
  const Outbox::SendItem sent = *std::move(beat_);
  beat_.reset();
  v1::HeartbeatReply said = news;
  said.set_term(std::max<uint64_t>(news.term(), 1));
  driver_.Reply(sent, said);
}

void JoinedWorker::AnswerHold(const v1::SnapshotNumber& snapshot) {
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  *news.mutable_snapshot() = snapshot;
  news.set_stop(!IsZero(snapshot));
  AnswerBeat(news);
}

void JoinedWorker::AnswerSnapshot(const v1::SnapshotNumber& snapshot) {
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  *news.mutable_snapshot() = snapshot;
  AnswerBeat(news);
}

void JoinedWorker::KeepBeating(absl::Duration duration) {
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(1)) {
    AnswerBeat(news);
    driver_.Advance(absl::Seconds(1));
  }
}

// ---- servers ----------------------------------------------------------------

void JoinedWorker::AnswerPull(const Outbox::SendItem& sent, float value) {
  v1::PullReply reply;
  reply.set_encoding(v1::FP32);
  std::vector<float> values;
  for (const v1::PullBlock& asked : PullOf(sent).blocks()) {
    v1::PulledBlock* block = reply.add_blocks();
    block->set_slice(asked.slice());
    block->set_block(asked.block());
    block->set_elements(2);
    block->mutable_version()->set_life(++life_);
    values.insert(values.end(), {value, value});
  }
  driver_.Reply(sent, reply, {Floats(values)});
}

v1::PushReply JoinedWorker::PushReplyTo(const Outbox::SendItem& sent) {
  v1::PushReply reply;
  *reply.mutable_server_generation() = Pair(1, 1);
  for (const v1::PushBlock& pushed : PushOf(sent).blocks()) {
    v1::PushedBlock* block = reply.add_blocks();
    block->set_slice(pushed.slice());
    block->set_block(pushed.block());
    block->set_result(v1::PushedBlock::APPLIED);
  }
  return reply;
}

void JoinedWorker::AnswerPush(const Outbox::SendItem& sent) {
  driver_.Reply(sent, PushReplyTo(sent));
}

void JoinedWorker::AnswerPushWithWeights(const Outbox::SendItem& sent,
                                         float value) {
  v1::PushReply reply = PushReplyTo(sent);
  reply.mutable_pulled()->set_encoding(v1::FP32);
  std::vector<float> values;
  for (const v1::PushBlock& pushed : PushOf(sent).blocks()) {
    v1::PulledBlock* block = reply.mutable_pulled()->add_blocks();
    block->set_slice(pushed.slice());
    block->set_block(pushed.block());
    block->set_elements(2);
    block->mutable_version()->set_life(++life_);
    values.insert(values.end(), {value, value});
  }
  driver_.Reply(sent, reply, {Floats(values)});
}

// ---- computing --------------------------------------------------------------

void JoinedWorker::AnswerCompute(
    const std::pair<IoId, v1::ComputeGradient>& compute, double loss) {
  v1::ComputeGradientResult result;
  result.set_loss(loss);
  result.set_examples(compute.second.end() - compute.second.begin());
  driver_.Complete(compute.first, result, {Floats({1, 2})});
}

}  // namespace paramd::testing
