#ifndef PARAMD_CLIENT_CORE_TESTING_SESSION_TEST_BASE_H_
#define PARAMD_CLIENT_CORE_TESTING_SESSION_TEST_BASE_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "client/core/session.h"
#include "client/core/testing/configurations.h"
#include "tensor/shape.h"

namespace paramd::testing {

inline constexpr Session::OpId kOp = 9;

// A session and what it sent; the test answers in the place of the servers.
class SessionTestBase : public ::testing::Test {
 protected:
  // Variable "a" of two elements on ps-0, "b" of three on ps-1.
  static v1::Configuration Small() {
    return MakeConfiguration({{"a", {2}, 0}, {"b", {3}, 1}}, 2);
  }
  // One variable of two whole blocks and one of two elements, all on ps-0.
  static v1::Configuration ThreeBlocks() {
    return MakeConfiguration({{"w", {2 * kMaxBlockElements + 2}, 0}}, 1);
  }

  void Use(const v1::Configuration& configuration,
           Session::Options options = {}) {
    options.worker = 3;
    options.request_id_seed = 5;
    session_ = std::make_unique<Session>(options);
    ASSERT_TRUE(session_->Configure(configuration, Pair(1, 9)).ok());
    weights_ = Weights(session_->placement());
  }

  void Pull(Session::OpId op = kOp) {
    session_->StartPull(op, &weights_, 4, now_, &out_);
  }
  void Push(uint64_t sequence) {
    Session::PushInfo info;
    info.sequence = sequence;
    info.snapshot = Pair(1, 2);
    info.epoch = 6;
    info.input_begin = 7;
    info.input_end = 8;
    info.weights = &weights_;
    info.pull_into = pull_into_;
    std::vector<Buffer> gradients;
    for (const uint64_t elements : session_->placement().elements()) {
      std::vector<float> numbers(elements);
      for (uint64_t i = 0; i < elements; ++i) numbers[i] = 1 + i;
      gradients.push_back(Floats(numbers));
    }
    session_->StartPush(kOp, info, std::move(gradients), now_, &out_);
  }

  // What was sent since the last call of this.
  std::vector<Outbox::SendItem> Sent() { return std::exchange(out_.sends, {}); }
  template <typename Head>
  static const Head& HeadOf(const Outbox::SendItem& sent) {
    return dynamic_cast<const Head&>(*sent.head);
  }

  void Answer(const Outbox::SendItem& sent, absl::Status status,
              const google::protobuf::Message* head = nullptr,
              BufferChain payload = {}) {
    Message message;
    message.from = sent.to;
    message.call = sent.call;
    message.is_reply = true;
    message.status = std::move(status);
    message.head = head;
    message.payload = std::move(payload);
    message.in_shared_memory = in_shared_memory_;
    EXPECT_TRUE(session_->Receive(message, now_, &out_));
  }
  void Answer(const Outbox::SendItem& sent,
              const google::protobuf::Message& head, BufferChain payload = {}) {
    Answer(sent, absl::OkStatus(), &head, std::move(payload));
  }

  // The server's good answer: every block in this life with `value` everywhere.
  static v1::PullReply PullReplyTo(const Outbox::SendItem& sent,
                                   const Placement& placement,
                                   uint64_t life = 1) {
    v1::PullReply reply;
    reply.set_encoding(v1::FP32);
    for (const v1::PullBlock& asked : HeadOf<v1::PullRequest>(sent).blocks()) {
      v1::PulledBlock* block = reply.add_blocks();
      block->set_slice(asked.slice());
      block->set_block(asked.block());
      block->mutable_version()->set_life(life);
      block->set_elements(
          placement.slices()[asked.slice()].block_elements(asked.block()));
    }
    return reply;
  }
  v1::PullReply PullReplyTo(const Outbox::SendItem& sent) const {
    return PullReplyTo(sent, session_->placement());
  }
  static BufferChain Values(const v1::PullReply& reply, float value) {
    size_t elements = 0;
    for (const auto& block : reply.blocks()) elements += block.elements();
    return {Floats(std::vector<float>(elements, value))};
  }
  static v1::PushReply PushReplyTo(
      const Outbox::SendItem& sent, const v1::ServerLife& generation,
      v1::PushedBlock::Result result = v1::PushedBlock::APPLIED) {
    v1::PushReply reply;
    *reply.mutable_server_generation() = generation;
    for (const v1::PushBlock& asked : HeadOf<v1::PushRequest>(sent).blocks()) {
      v1::PushedBlock* block = reply.add_blocks();
      block->set_slice(asked.slice());
      block->set_block(asked.block());
      block->set_result(result);
    }
    return reply;
  }
  static v1::PushReply PushReplyTo(const Outbox::SendItem& sent) {
    return PushReplyTo(sent, Pair(1, sent.to.index + 1));
  }

  // Advances to the next tick, at least.
  void TickAt(Time when) {
    now_ = std::max(now_, when);
    session_->Tick(now_, &out_);
  }
  void TickWhenWanted() { TickAt(session_->next_tick()); }

  // The end of the one operation; UNKNOWN while it is open.
  absl::Status End() {
    const auto finished = session_->TakeFinished();
    if (!finished.has_value()) return absl::UnknownError("still open");
    EXPECT_EQ(finished->op, kOp);
    return finished->status;
  }
  bool IsOpen() { return absl::IsUnknown(End()); }

  bool in_shared_memory_ = false;  // What servers' answers say.
  std::unique_ptr<Session> session_;
  Weights weights_;
  Weights* pull_into_ = nullptr;  // Of pushes.
  Outbox out_;
  Time now_ = Time::FromNanoseconds(1000);
};

}  // namespace paramd::testing

#endif  // PARAMD_CLIENT_CORE_TESTING_SESSION_TEST_BASE_H_
