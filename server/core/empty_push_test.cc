// A push of no examples: nothing of it is in, whatever the mode and the
// optimizer.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::AddRows;
using ::testing::ElementsAre;
using testing::MakeConfiguration;
using testing::Pair;
using testing::Payload;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Uniform;
using testing::Zeros;

// All optimizers that a job can name, by their fields.
std::vector<int> AllOptimizers() {
  std::vector<int> numbers;
  const auto* const kinds =
      v1::OptimizerConfig::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds->field_count(); ++i) {
    numbers.push_back(kinds->field(i)->number());
  }
  return numbers;
}

std::string OptimizerName(int number) {
  return v1::OptimizerConfig::descriptor()->FindFieldByNumber(number)->name();
}

// With all that a step does beside adding its gradient: momentum, decay, a rate
// that follows the number of steps.
v1::OptimizerConfig OptimizerOf(int number) {
  v1::OptimizerConfig config;
  config.GetReflection()->MutableMessage(
      &config, config.GetDescriptor()->FindFieldByNumber(number));
  if (config.has_sgd()) config.mutable_sgd()->set_momentum(0.9);
  if (config.has_rmsprop()) config.mutable_rmsprop()->set_momentum(0.9);
  if (config.has_adamw()) {
    config.mutable_adamw()->set_weight_decay(0.1);
  } else if (config.has_lamb()) {
    config.mutable_lamb()->set_weight_decay(0.1);
  } else {
    config.set_weight_decay(0.1);
  }
  config.set_learning_rate(0.1);
  config.set_schedule(v1::OptimizerConfig::EXPONENTIAL);
  config.set_decay_steps(2);
  config.set_decay_factor(0.5);
  return config;
}

using ModeAndOptimizer = std::tuple<v1::Consistency::Mode, int>;

// Slices: 0 "w" of 2 elements, 1 "table" of 4 rows of 2. Worker 1 alone pushes.
class EmptyPushTest : public ::testing::TestWithParam<ModeAndOptimizer> {
 protected:
  EmptyPushTest() {
    v1::Variable table = Uniform("table", {4, 2});
    table.set_sparse(true);
    configuration_ = MakeConfiguration({Uniform("w", {2}), table});
    configuration_.mutable_consistency()->set_mode(mode());
    *configuration_.mutable_optimizer() = OptimizerOf(std::get<1>(GetParam()));
    if (!is_sync()) return;
    v1::Contributors* const told = configuration_.mutable_contributors();
    *told->mutable_version() = Pair(1, 1);
    told->set_first_step(1);
    told->add_workers(1);
  }
  v1::Consistency::Mode mode() const { return std::get<0>(GetParam()); }
  bool is_sync() const { return mode() == v1::Consistency::SYNC; }

  // The weights after pushes of these gradients; 0: one of no examples.
  std::vector<float> Train(const std::vector<float>& gradients) {
    ShardDriver driver;
    driver.MakeReady(configuration_);
    for (size_t i = 0; i < gradients.size(); ++i) {
      Push(i + 1, gradients[i], &driver);
      if (is_sync()) Decide(i + 1, &driver);
    }
    std::vector<float> weights = driver.Pull(0);
    for (const float value : driver.Pull(1)) weights.push_back(value);
    return weights;
  }

  void Push(uint64_t number, float gradient, ShardDriver* driver) {
    const bool empty = gradient == 0;
    v1::PushRequest push = driver->MakePush(number, {{0, 0}}, empty ? 0 : 2);
    if (is_sync()) {
      push.set_step(number);
      push.set_examples(empty ? 0 : 4);
      *push.mutable_contributors() = configuration_.contributors().version();
    } else {
      push.set_empty(empty);
    }
    BufferChain payload;
    if (empty) {
      AddRows({1, 0}, 0, push.mutable_rows());
    } else {
      AddRows({1, 0}, 1, push.mutable_rows());
      const std::vector<uint32_t> row = {2};
      payload = {Buffer::Copy(AsBytes(absl::MakeConstSpan(row)))};
      for (Buffer& numbers :
           Payload({gradient, -gradient, 2 * gradient, gradient})) {
        payload.push_back(numbers);
      }
    }
    const auto reply =
        driver->Ask<v1::PushReply>(PeerId::Worker(1), push, std::move(payload));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->blocks(0).result(),
              is_sync() ? v1::PushedBlock::HELD : v1::PushedBlock::APPLIED);
  }
  void Decide(uint64_t step, ShardDriver* driver) {
    v1::DecideRequest decide;
    decide.mutable_header()->set_term(1);
    *decide.mutable_contributors() = configuration_.contributors().version();
    decide.set_step(step);
    decide.add_workers(1);
    decide.set_examples(4);
    const CallId call = driver->Begin(PeerId::Coordinator(), decide);
    driver->Settle();
    ASSERT_TRUE(driver->answered(call));
    const ShardDriver::Answer answer = driver->Take(call);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
  }

  v1::Configuration configuration_;
};

TEST_P(EmptyPushTest, ItChangesNothingNowOrLater) {
  const std::vector<float> once = Train({1});
  EXPECT_EQ(Train({1, 0, 0, 0}), once);
  EXPECT_EQ(Train({0, 1}), once);
  const std::vector<float> twice = Train({1, -0.5f});
  EXPECT_NE(twice, once);
  EXPECT_EQ(Train({1, 0, 0, 0, -0.5f, 0}), twice);
}

// Slices 0 and 1 of 2 elements. Each push is of one of them, and leaves the
// other one.
class PartPushTest : public EmptyPushTest {
 protected:
  PartPushTest() {
    const v1::Configuration two =
        MakeConfiguration({Uniform("w", {2}), Uniform("v", {2})});
    *configuration_.mutable_layout() = two.layout();
  }
  // The weights of both after pushes of the one and of the other, twice each.
  std::vector<float> TrainInTurn(const std::vector<uint32_t>& turns) {
    ShardDriver driver;
    driver.MakeReady(configuration_);
    uint64_t number = 0;
    for (const uint32_t turn : turns) {
      ++number;
      for (const uint32_t slice : {0u, 1u}) {
        // As one that is sent again after its answer was lost.
        PushPart(number, slice, slice == turn, &driver);
        PushPart(number, slice, slice == turn, &driver);
      }
      if (is_sync()) Decide(number, &driver);
    }
    std::vector<float> weights = driver.Pull(0);
    for (const float value : driver.Pull(1)) weights.push_back(value);
    return weights;
  }
  void PushPart(uint64_t number, uint32_t slice, bool has_gradient,
                ShardDriver* driver) {
    v1::PushRequest push =
        driver->MakePush(number, {{slice, 0}}, has_gradient ? 2 : 0);
    push.set_empty(!has_gradient);
    if (is_sync()) {
      push.set_step(number);
      push.set_examples(4);
      *push.mutable_contributors() = configuration_.contributors().version();
    }
    const float gradient = 1.0f + slice;
    const auto reply = driver->Ask<v1::PushReply>(
        PeerId::Worker(1), push,
        has_gradient ? Payload({gradient, -gradient}) : BufferChain());
    ASSERT_TRUE(reply.ok()) << reply.status();
  }
};

TEST_P(PartPushTest, Promise1_WhatAPushLeavesIsAsIfThePushHadNotBeen) {
  const std::vector<float> none = TrainInTurn({});
  const std::vector<float> one = TrainInTurn({0, 0, 0});
  const std::vector<float> other = TrainInTurn({1, 1});
  const std::vector<float> both = TrainInTurn({0, 1, 0, 0, 1});
  for (const size_t i : {0, 1}) {
    EXPECT_NE(one[i], none[i]);
    EXPECT_EQ(both[i], one[i]);
    EXPECT_EQ(other[i], none[i]);
  }
  for (const size_t i : {2, 3}) {
    EXPECT_NE(other[i], none[i]);
    EXPECT_EQ(both[i], other[i]);
    EXPECT_EQ(one[i], none[i]);
  }
}

TEST_P(EmptyPushTest, Promise9_RowsThatAPushWithExamplesLeavesAreRefused) {
  ShardDriver driver;
  driver.MakeReady(configuration_);
  v1::PushRequest push = driver.MakePush(1, {}, 0);
  AddRows({1, 0}, 0, push.mutable_rows());
  push.set_empty(true);
  push.set_examples(4);
  if (is_sync()) {
    push.set_step(1);
    *push.mutable_contributors() = configuration_.contributors().version();
  }
  const auto reply =
      driver.Ask<v1::PushReply>(PeerId::Worker(1), push, BufferChain());
  EXPECT_EQ(ReasonOf(reply.status()), v1::Refusal::INVALID);
}

INSTANTIATE_TEST_SUITE_P(
    ModesAndOptimizers, PartPushTest,
    ::testing::Combine(::testing::Values(v1::Consistency::ASYNC,
                                         v1::Consistency::BOUNDED,
                                         v1::Consistency::SYNC),
                       ::testing::ValuesIn(AllOptimizers())),
    [](const ::testing::TestParamInfo<ModeAndOptimizer>& info) {
      return absl::StrCat(v1::Consistency::Mode_Name(std::get<0>(info.param)),
                          "_", OptimizerName(std::get<1>(info.param)));
    });
INSTANTIATE_TEST_SUITE_P(
    ModesAndOptimizers, EmptyPushTest,
    ::testing::Combine(::testing::Values(v1::Consistency::ASYNC,
                                         v1::Consistency::BOUNDED,
                                         v1::Consistency::SYNC),
                       ::testing::ValuesIn(AllOptimizers())),
    [](const ::testing::TestParamInfo<ModeAndOptimizer>& info) {
      return absl::StrCat(v1::Consistency::Mode_Name(std::get<0>(info.param)),
                          "_", OptimizerName(std::get<1>(info.param)));
    });

// ---- what else is known of it, in async
// ---------------------------------------

class EmptyAsyncPushTest : public ::testing::Test {
 protected:
  EmptyAsyncPushTest() {
    driver_.MakeReady(MakeConfiguration({Zeros("w", {2})}));
  }
  v1::PushRequest Empty(uint64_t sequence, uint32_t elements = 0) const {
    v1::PushRequest push = driver_.MakePush(sequence, {{0, 0}}, elements);
    push.set_empty(true);
    return push;
  }
  v1::PushedBlock::Result ResultOf(const v1::PushRequest& push,
                                   const std::vector<float>& gradient = {}) {
    const auto reply = driver_.Push(push, gradient);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->blocks(0).result()
                      : v1::PushedBlock::RESULT_UNSPECIFIED;
  }

  ShardDriver driver_;
};

TEST_F(EmptyAsyncPushTest, Promise1_ItIsInOnceAndThoseBehindItAreAdmitted) {
  EXPECT_EQ(ResultOf(Empty(1)), v1::PushedBlock::APPLIED);
  EXPECT_EQ(ResultOf(Empty(1)), v1::PushedBlock::ALREADY_APPLIED);
  const v1::PushRequest next = driver_.MakePush(2, {{0, 0}}, 2);
  EXPECT_EQ(ResultOf(next, {1, 2}), v1::PushedBlock::APPLIED);
  EXPECT_EQ(ResultOf(Empty(1)), v1::PushedBlock::SUPERSEDED);
  EXPECT_THAT(driver_.Pull(0), ElementsAre(-1, -2));
}

TEST_F(EmptyAsyncPushTest, Promise9_OneWithNumbersIsRefused) {
  EXPECT_EQ(ReasonOf(driver_.Push(Empty(1, 2), {1, 2}).status()),
            v1::Refusal::INVALID);
  EXPECT_EQ(ReasonOf(driver_.Push(Empty(1), {1, 2}).status()),
            v1::Refusal::INVALID);
  EXPECT_THAT(driver_.Pull(0), ElementsAre(0, 0));
}

}  // namespace
}  // namespace paramd
