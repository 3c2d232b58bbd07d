#include "server/core/sync_step.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/magnitudes.h"
#include "proto/refusal.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using ::paramd::testing::MakeConfiguration;
using ::paramd::testing::MakeSeal;
using ::paramd::testing::Numbers;
using ::paramd::testing::Pair;
using ::paramd::testing::Payload;
using ::paramd::testing::ShardDriver;
using ::paramd::testing::Zeros;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Slices 0 "w" of 2 elements and 1 "b" of 1, plain SGD with rate 1, workers 0
// to 2 contribute from step 1 on.
v1::Configuration Sync(uint32_t backup_workers = 0) {
  v1::Configuration configuration =
      MakeConfiguration({Zeros("w", {2}), Zeros("b", {1})});
  v1::Consistency* const consistency = configuration.mutable_consistency();
  consistency->set_mode(v1::Consistency::SYNC);
  consistency->set_backup_workers(backup_workers);
  v1::Contributors* const contributors = configuration.mutable_contributors();
  *contributors->mutable_version() = Pair(1, 1);
  contributors->set_first_step(1);
  for (const uint32_t worker : {0, 1, 2}) contributors->add_workers(worker);
  return configuration;
}

// The same, with so many bytes for gradients that wait.
v1::Configuration WithRoom(uint64_t bytes, v1::Configuration configuration) {
  configuration.mutable_server_settings()->set_sync_park_bytes(bytes);
  return configuration;
}

// The same, where behind step 1 half of all weights are to become zero.
v1::Configuration Pruned(v1::Configuration configuration) {
  v1::OptimizerConfig::Pruning* const pruning =
      configuration.mutable_optimizer()->add_pruning();
  pruning->set_variables("*");
  pruning->set_sparsity(0.5);
  pruning->set_begin_step(1);
  pruning->set_end_step(1);
  pruning->set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
  return configuration;
}

// The same, where it is half of the channels of 'w', which has one input.
v1::Configuration PrunedByChannels() {
  v1::Configuration configuration = Pruned(Sync());
  v1::OptimizerConfig::Pruning* const pruning =
      configuration.mutable_optimizer()->mutable_pruning(0);
  pruning->set_variables("w");
  pruning->clear_scope();
  pruning->set_structure(v1::OptimizerConfig::Pruning::CHANNELS);
  v1::Layout* const layout = configuration.mutable_layout();
  *layout->mutable_variables(0) = Zeros("w", {1, 2});
  layout->mutable_slices(0)->set_row_end(1);
  return configuration;
}

v1::PrunedChannels Channels(uint32_t variable,
                            const std::vector<uint32_t>& channels) {
  v1::PrunedChannels pruned;
  pruned.set_variable(variable);
  pruned.mutable_channels()->Assign(channels.begin(), channels.end());
  return pruned;
}

v1::PruningThreshold Below(uint32_t pruning, float magnitude) {
  v1::PruningThreshold threshold;
  threshold.set_pruning(pruning);
  threshold.set_magnitude(magnitude);
  return threshold;
}

// Configuration 1.2, contributors 1.2 are these, from `first_step` on.
v1::Configuration Changed(v1::Configuration configuration, uint64_t first_step,
                          const std::vector<uint32_t>& workers) {
  *configuration.mutable_version() = Pair(1, 2);
  v1::Contributors* const contributors = configuration.mutable_contributors();
  *contributors->mutable_version() = Pair(1, 2);
  contributors->set_first_step(first_step);
  contributors->mutable_workers()->Assign(workers.begin(), workers.end());
  return configuration;
}

class SyncStepTest : public ::testing::Test {
 protected:
  void Start(const v1::Configuration& configuration) {
    configuration_ = configuration;
    driver_->MakeReady(configuration);
  }

  v1::PushRequest Head(uint32_t worker, uint64_t step, uint64_t examples) {
    v1::PushRequest push;
    push.set_encoding(v1::FP32);
    push.mutable_header()->set_worker(worker);
    push.mutable_header()->set_sequence(step);
    *push.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    push.set_step(step);
    push.set_examples(examples);
    *push.mutable_contributors() = configuration_.contributors().version();
    return push;
  }
  static void AddBlock(uint32_t slice, uint32_t elements,
                       v1::PushRequest* push) {
    push->add_blocks()->set_slice(slice);
    push->mutable_blocks(push->blocks_size() - 1)->set_elements(elements);
  }
  CallId Begin(const v1::PushRequest& push,
               const std::vector<float>& gradient) {
    return driver_->Begin(PeerId::Worker(push.header().worker()), push,
                          Payload(gradient));
  }
  // A whole contribution of one example: both values of w and the one of b.
  CallId Contribute(uint32_t worker, uint64_t step,
                    const std::vector<float>& gradient) {
    v1::PushRequest push = Head(worker, step, 1);
    AddBlock(0, 2, &push);
    AddBlock(1, 1, &push);
    return Begin(push, gradient);
  }
  v1::PushReply Held(CallId call) {
    EXPECT_TRUE(driver_->answered(call));
    const ShardDriver::Answer answer = driver_->Take(call);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer.status.ok() ? static_cast<const v1::PushReply&>(*answer.head)
                              : v1::PushReply();
  }
  absl::Status RefusalOfCall(CallId call) {
    EXPECT_TRUE(driver_->answered(call));
    return driver_->Take(call).status;
  }
  CallId BeginDecide(uint64_t step, const std::vector<uint32_t>& workers,
                     uint64_t examples = 3) {
    v1::DecideRequest decide;
    decide.mutable_header()->set_term(1);
    *decide.mutable_contributors() = configuration_.contributors().version();
    decide.set_step(step);
    decide.set_examples(examples);
    for (const uint32_t worker : workers) decide.add_workers(worker);
    if (threshold_.has_value()) *decide.add_thresholds() = *threshold_;
    if (channels_.has_value()) *decide.add_channels() = *channels_;
    return driver_->Begin(PeerId::Coordinator(), decide);
  }
  v1::DecideReply Decided(CallId call) {
    driver_->Settle();
    EXPECT_TRUE(driver_->answered(call));
    ShardDriver::Answer answer = driver_->Take(call);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer.status.ok()
               ? static_cast<const v1::DecideReply&>(*answer.head)
               : v1::DecideReply();
  }
  std::vector<float> Values() {
    std::vector<float> values = driver_->Pull(0);
    values.push_back(driver_->Pull(1)[0]);
    return values;
  }

  v1::Configuration configuration_;
  absl::optional<v1::PruningThreshold> threshold_;  // Decided with.
  absl::optional<v1::PrunedChannels> channels_;     // The same.
  absl::optional<ShardDriver> driver_{absl::in_place};
};

TEST_F(SyncStepTest, NothingChangesBeforeTheStepIsDecided) {
  Start(Sync());
  for (const uint32_t worker : {0, 1, 2}) {
    const v1::PushReply reply = Held(Contribute(worker, 1, {1, 2, 3}));
    ASSERT_EQ(reply.blocks_size(), 2);
    EXPECT_EQ(reply.blocks(1).slice(), 1u);
    EXPECT_EQ(reply.blocks(1).result(), v1::PushedBlock::HELD);
    EXPECT_EQ(reply.server_generation(), Pair(1, 1));
  }
  EXPECT_THAT(Values(), ElementsAre(0, 0, 0));
  EXPECT_EQ(Decided(BeginDecide(1, {0, 1, 2})).step(), 1u);
  EXPECT_THAT(Values(), ElementsAre(-3, -6, -9));
}

TEST_F(SyncStepTest, Promise6_TheOrderOfArrivalMakesNoDifference) {
  // In fp32 the sum depends on the order in which it is taken.
  const std::vector<std::vector<float>> gradients = {
      {1e8f, 1e-8f, 1}, {1, 1, 1e8f}, {-1e8f, -1, -1e8f}};
  const std::vector<std::vector<uint32_t>> orders = {
      {0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
  std::vector<std::vector<float>> results;
  for (const auto& order : orders) {
    driver_.emplace();
    Start(Sync());
    for (const uint32_t worker : order) {
      Contribute(worker, 1, gradients[worker]);
    }
    Decided(BeginDecide(1, {0, 1, 2}));
    results.push_back(Values());
  }
  EXPECT_THAT(results[0], ElementsAre(-((1e8f + 1) - 1e8f), -((1e-8f + 1) - 1),
                                      -((1 + 1e8f) - 1e8f)));
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST_F(SyncStepTest, TheCoordinatorHearsWhoseContributionsAreWhole) {
  Start(Sync());
  const CallId call = BeginDecide(0, {});
  EXPECT_FALSE(driver_->answered(call));
  v1::PushRequest half = Head(1, 1, 1);
  AddBlock(0, 2, &half);
  Begin(half, {1, 1});
  EXPECT_FALSE(driver_->answered(call));
  v1::PushRequest rest = Head(1, 1, 1);
  AddBlock(1, 1, &rest);
  Begin(rest, {1});
  EXPECT_THAT(Decided(call).complete(), ElementsAre(1));

  Contribute(0, 1, {1, 1, 1});
  EXPECT_THAT(Decided(BeginDecide(0, {})).complete(), ElementsAre(0, 1));
}

TEST_F(SyncStepTest, Promise4_AServerWithoutSlicesKeepsNobodyWaiting) {
  v1::Configuration configuration = MakeConfiguration({Zeros("w", {2})}, 2);
  configuration.mutable_consistency()->set_mode(v1::Consistency::SYNC);
  *configuration.mutable_contributors() = Sync().contributors();
  driver_.emplace(/*index=*/1);
  Start(configuration);
  EXPECT_THAT(Decided(BeginDecide(0, {})).complete(), ElementsAre(0, 1, 2));
  const v1::DecideReply decided = Decided(BeginDecide(1, {0, 1, 2}));
  EXPECT_EQ(decided.step(), 1u);
  EXPECT_THAT(decided.complete(), ElementsAre(0, 1, 2)) << "of the next step";
}

TEST_F(SyncStepTest, ADecidingCallIsAnsweredAfterAWhileThoughNothingCame) {
  Start(Sync());
  const CallId call = BeginDecide(0, {});
  driver_->Advance(absl::Seconds(1));
  const v1::DecideReply reply = Decided(call);
  EXPECT_EQ(reply.step(), 0u);
  EXPECT_EQ(reply.contributors(), Pair(1, 1));
  EXPECT_THAT(reply.complete(), IsEmpty());
}

TEST_F(SyncStepTest, Promise1_AResentContributionIsSummedOnce) {
  Start(Sync());
  Held(Contribute(0, 1, {1, 1, 1}));
  EXPECT_EQ(Held(Contribute(0, 1, {1, 1, 1})).blocks(0).result(),
            v1::PushedBlock::HELD);
  Contribute(1, 1, {1, 1, 1});
  Contribute(2, 1, {1, 1, 1});
  Decided(BeginDecide(1, {0, 1, 2}));
  EXPECT_THAT(Values(), ElementsAre(-3, -3, -3));

  EXPECT_EQ(Held(Contribute(0, 1, {1, 1, 1})).blocks(0).result(),
            v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_THAT(Values(), ElementsAre(-3, -3, -3));
}

TEST_F(SyncStepTest, AStepToldTwiceIsAppliedOnce) {
  Start(Sync());
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 1, {1, 1, 1});
  Decided(BeginDecide(1, {0, 1, 2}));
  const CallId again = BeginDecide(1, {0, 1, 2});
  driver_->Advance(absl::Seconds(1));
  EXPECT_EQ(Decided(again).step(), 1u);
  EXPECT_THAT(Values(), ElementsAre(-3, -3, -3));
}

TEST_F(SyncStepTest, AContributionWithoutExamplesAddsNothing) {
  Start(Sync());
  v1::PushRequest empty = Head(2, 1, 0);
  AddBlock(0, 0, &empty);
  AddBlock(1, 0, &empty);
  EXPECT_EQ(Held(Begin(empty, {})).blocks_size(), 2);
  Contribute(0, 1, {1, 1, 1});
  Contribute(1, 1, {1, 1, 1});
  Decided(BeginDecide(1, {0, 1, 2}, 2));
  EXPECT_THAT(Values(), ElementsAre(-2, -2, -2));
}

TEST_F(SyncStepTest, ExamplesThatTheInputLeftOutDoNotCountInAStep) {
  Start(Sync());
  // Each share was to have 2, and says that it has 1.
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 1, {1, 2, 4});
  Decided(BeginDecide(1, {0, 1, 2}, /*examples=*/6));
  EXPECT_THAT(Values(), ElementsAre(-6, -12, -24));
}

TEST_F(SyncStepTest, AStepOfWhichNothingIsLeftChangesNothing) {
  Start(Sync());
  for (const uint32_t worker : {0, 1, 2}) {
    v1::PushRequest empty = Head(worker, 1, 0);
    AddBlock(0, 0, &empty);
    AddBlock(1, 0, &empty);
    Begin(empty, {});
  }
  EXPECT_EQ(Decided(BeginDecide(1, {0, 1, 2}, /*examples=*/6)).step(), 1u);
  EXPECT_THAT(Values(), ElementsAre(0, 0, 0));
}

TEST_F(SyncStepTest, TheCoordinatorHearsHowLargeWeightsAreWhenItIsTime) {
  Start(Pruned(Sync()));
  const CallId asked = BeginDecide(0, {});
  driver_->Advance(absl::Seconds(1));
  EXPECT_EQ(Decided(asked).magnitudes_size(), 0);
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 1, {1, 2, 3});
  const v1::DecideReply reply = Decided(BeginDecide(1, {0, 1, 2}));
  ASSERT_EQ(reply.magnitudes_size(), 1);
  EXPECT_EQ(reply.magnitudes(0).pruning(), 0u);
  EXPECT_EQ(reply.magnitudes(0).share(), 0.5);
  EXPECT_THAT(reply.magnitudes(0).counts(), ElementsAre(1, 1, 1));
  Magnitudes magnitudes;
  ASSERT_TRUE(magnitudes.AddCounts(reply.magnitudes(0)));
  EXPECT_EQ(magnitudes.ThresholdFor(0.4), 6);  // Of 3, 6 and 9.
  EXPECT_THAT(Values(), ElementsAre(-3, -6, -9));

  // Whoever asks again hears it again.
  const CallId again = BeginDecide(1, {0, 1, 2});
  driver_->Advance(absl::Seconds(1));
  EXPECT_EQ(Decided(again).magnitudes_size(), 1);

  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 2, {0, 0, 0});
  threshold_ = Below(0, 6);
  EXPECT_EQ(Decided(BeginDecide(2, {0, 1, 2})).magnitudes_size(), 0);
  EXPECT_THAT(Values(), ElementsAre(0, -6, -9));

  threshold_.reset();
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 3, {1, 1, -2});
  Decided(BeginDecide(3, {0, 1, 2}));
  EXPECT_THAT(Values(), ElementsAre(0, -9, -3));
}

TEST_F(SyncStepTest, ChannelsThatAreAnnouncedBecomeZero) {
  Start(PrunedByChannels());
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 1, {1, 2, 3});
  const v1::DecideReply reply = Decided(BeginDecide(1, {0, 1, 2}));
  EXPECT_EQ(reply.magnitudes_size(), 0);
  ASSERT_EQ(reply.channels_size(), 1);
  EXPECT_EQ(reply.channels(0).variable(), 0u);
  EXPECT_EQ(reply.channels(0).share(), 0.5);
  EXPECT_THAT(reply.channels(0).squares(),
              ElementsAre(uint64_t{9} << 40, uint64_t{36} << 40));
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 2, {-9, 1, 1});
  channels_ = Channels(0, {0});
  EXPECT_EQ(Decided(BeginDecide(2, {0, 1, 2})).channels_size(), 0);
  EXPECT_THAT(Values(), ElementsAre(0, -9, -12));
  channels_.reset();
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 3, {1, 1, 1});
  Decided(BeginDecide(3, {0, 1, 2}));
  EXPECT_THAT(Values(), ElementsAre(0, -12, -15));
}

TEST_F(SyncStepTest, Promise9_ChannelsOfNothingAreRefusedAndChangeNothing) {
  Start(PrunedByChannels());
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 1, {1, 2, 3});
  channels_ = Channels(1, {0});
  EXPECT_THAT(std::string(RefusalOfCall(BeginDecide(1, {0, 1, 2})).message()),
              HasSubstr("channels of variable 1 become zero, which are not "
                        "pruned"));
  for (const std::vector<uint32_t>& wrong :
       {std::vector<uint32_t>{2}, {1, 0}, {0, 0}}) {
    channels_ = Channels(0, wrong);
    EXPECT_THAT(std::string(RefusalOfCall(BeginDecide(1, {0, 1, 2})).message()),
                HasSubstr("channels of variable 0 are not ascending below 2"));
  }
  EXPECT_THAT(Values(), ElementsAre(0, 0, 0));
  channels_.reset();
  EXPECT_EQ(Decided(BeginDecide(1, {0, 1, 2})).step(), 1u);
}

TEST_F(SyncStepTest, Promise9_AThresholdOfNothingIsRefusedAndChangesNothing) {
  Start(Pruned(Sync()));
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 1, {1, 2, 3});
  threshold_ = Below(1, 6);
  EXPECT_THAT(
      std::string(RefusalOfCall(BeginDecide(1, {0, 1, 2})).message()),
      HasSubstr("optimizer.pruning[1] has no threshold for all servers"));
  threshold_ = Below(0, -1);
  EXPECT_THAT(std::string(RefusalOfCall(BeginDecide(1, {0, 1, 2})).message()),
              HasSubstr("the threshold of optimizer.pruning[0] is a "
                        "magnitude, at least 0; found -1"));
  threshold_ = Below(0, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(RefusalOfCall(BeginDecide(1, {0, 1, 2})).ok());
  EXPECT_THAT(Values(), ElementsAre(0, 0, 0));
  threshold_.reset();
  EXPECT_EQ(Decided(BeginDecide(1, {0, 1, 2})).step(), 1u);
  EXPECT_THAT(Values(), ElementsAre(-3, -6, -9));
}

TEST_F(SyncStepTest, AStepOfWhatIsNotHereIsRefusedAndChangesNothing) {
  Start(Sync());
  Contribute(0, 1, {1, 1, 1});
  Contribute(1, 1, {1, 1, 1});
  EXPECT_THAT(RefusalOfCall(BeginDecide(1, {0, 1, 2})).message(),
              HasSubstr("worker-2, whose contribution is not wholly here"));
  EXPECT_THAT(RefusalOfCall(BeginDecide(1, {0, 1})).message(),
              HasSubstr("with 2 workers, who are not 3 to 3"));
  EXPECT_THAT(RefusalOfCall(BeginDecide(2, {0, 1, 2})).message(),
              HasSubstr("step 2 is decided; step 1 is the next one here"));
  EXPECT_THAT(Values(), ElementsAre(0, 0, 0));
}

TEST_F(SyncStepTest, ChangedContributorsDropWhatWasGathered) {
  Start(Sync());
  Contribute(0, 1, {1, 1, 1});
  Contribute(2, 1, {7, 7, 7});
  const CallId decide = BeginDecide(0, {}, 0);
  driver_->Settle();
  v1::Configuration changed = Changed(Sync(), 1, {0, 1});
  ASSERT_TRUE(driver_->Configure(changed).ok());
  EXPECT_TRUE(driver_->answered(decide));

  // A chunk of the old contributors comes late.
  EXPECT_EQ(RefusalOf(RefusalOfCall(Contribute(0, 1, {1, 1, 1}))).reason(),
            v1::Refusal::NOT_READY);
  configuration_ = changed;
  Contribute(0, 1, {2, 2, 2});
  Contribute(1, 1, {3, 3, 3});
  Decided(BeginDecide(1, {0, 1}, 2));
  EXPECT_THAT(Values(), ElementsAre(-5, -5, -5));
}

TEST_F(SyncStepTest, ContributorsWhoBeginWithAnotherStepAreRefused) {
  Start(Sync());
  const auto reply = driver_->Configure(Changed(Sync(), 3, {0, 1}));
  EXPECT_EQ(reply.status().message(),
            "contributors 1.2 begin with step 3; the next one here is 1");
  const auto none = driver_->Configure(Changed(Sync(), 1, {}));
  EXPECT_THAT(none.status().message(), HasSubstr("begin with 0 workers"));
}

TEST_F(SyncStepTest, WhoDoesNotContributeIsRefusedByName) {
  Start(Changed(Sync(), 1, {0, 1}));
  const absl::Status status = RefusalOfCall(Contribute(2, 1, {1, 1, 1}));
  EXPECT_EQ(status.message(), "worker-2 is not one of the 2 contributors 1.2");
}

TEST_F(SyncStepTest, APushOfNoStepIsRefused) {
  Start(Sync());
  const auto reply = driver_->Push(driver_->MakePush(1, {{1, 0}}, 1), {1});
  EXPECT_EQ(reply.status().message(),
            "a push of this job names the step it is of");
}

TEST_F(SyncStepTest, WhatIsNotFiniteIsRefusedAndChangesNothing) {
  Start(Sync());
  const absl::Status status = RefusalOfCall(
      Contribute(0, 1, {1, std::numeric_limits<float>::quiet_NaN(), 1}));
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::QUARANTINED);
  const CallId decide = BeginDecide(0, {});
  driver_->Advance(absl::Seconds(1));
  EXPECT_THAT(Decided(decide).complete(), IsEmpty());
}

TEST_F(SyncStepTest, TheNextInOrderIsAcceptedThoughThereIsNoRoom) {
  Start(WithRoom(12, Sync()));
  Contribute(1, 1, {1, 1, 1});
  const absl::Status refused = RefusalOfCall(Contribute(2, 1, {1, 1, 1}));
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::RETRY);
  EXPECT_THAT(refused.message(), HasSubstr("12 of 12 wait for worker-0"));
  Held(Contribute(0, 1, {1, 1, 1}));
  Held(Contribute(2, 1, {1, 1, 1}));
  Decided(BeginDecide(1, {0, 1, 2}));
  EXPECT_THAT(Values(), ElementsAre(-3, -3, -3));
}

TEST_F(SyncStepTest, WithBackupWorkersTheSlowestIsLateAndTheSumIsScaled) {
  Start(Sync(/*backup_workers=*/1));
  Contribute(2, 1, {1, 2, 4});
  Contribute(0, 1, {1, 2, 4});
  v1::PushRequest half = Head(1, 1, 1);
  AddBlock(0, 2, &half);
  Held(Begin(half, {100, 100}));
  EXPECT_THAT(Decided(BeginDecide(1, {0, 2})).complete(), IsEmpty());
  EXPECT_THAT(Values(), ElementsAre(-3, -6, -12));

  const absl::Status late = RefusalOfCall(Begin(half, {100, 100}));
  EXPECT_EQ(RefusalOf(late).reason(), v1::Refusal::LATE);
  EXPECT_EQ(RefusalOf(late).step(), 1u);
  EXPECT_EQ(late.message(), "step 1 was decided without worker-1");
  EXPECT_EQ(RefusalOf(RefusalOfCall(Contribute(1, 1, {9, 9, 9}))).reason(),
            v1::Refusal::LATE);
  EXPECT_THAT(Values(), ElementsAre(-3, -6, -12));
}

TEST_F(SyncStepTest, BackupWorkersNeedRoomForAWholeStep) {
  const v1::Configuration configuration =
      WithRoom(35, Sync(/*backup_workers=*/1));
  (void)driver_->Configure(configuration);
  driver_->Settle();
  EXPECT_EQ(driver_->Configure(configuration).status().message(),
            "a step of 3 workers has 36 bytes of gradients here; "
            "sync_park_bytes is 35");
}

TEST_F(SyncStepTest, Promise9_ContributorsThatDoNotFitChangeNothing) {
  v1::Configuration alone = WithRoom(35, Sync(/*backup_workers=*/1));
  const v1::Configuration changed = Changed(alone, 1, {0, 1, 2});
  alone.clear_contributors();
  Start(alone);
  // The second time is refused as the first: it was not taken over.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(driver_->Configure(changed).status().message(),
                HasSubstr("sync_park_bytes is 35"));
  }
  EXPECT_TRUE(driver_->Configure(alone).ok());
}

TEST_F(SyncStepTest, APullWaitsForTheStepItNamesAndHearsForWhom) {
  Start(Sync());
  v1::PullRequest pull;
  pull.mutable_header()->set_worker(1);
  *pull.mutable_header()->mutable_generation() = Pair(1, 11);
  pull.set_encoding(v1::FP32);
  pull.set_after_step(1);
  pull.add_blocks()->set_slice(0);
  Contribute(1, 1, {1, 1, 1});
  const CallId call = driver_->Begin(PeerId::Worker(1), pull);
  EXPECT_FALSE(driver_->answered(call));
  driver_->Advance(absl::Seconds(5));
  const absl::Status waits = RefusalOfCall(call);
  EXPECT_EQ(RefusalOf(waits).reason(), v1::Refusal::WAIT);
  EXPECT_EQ(waits.message(),
            "worker-1 generation 1.11 reads after step 1 and waits for "
            "worker-0 generation 1.10, worker-2 generation 1.12 to contribute "
            "to step 1");

  const CallId again = driver_->Begin(PeerId::Worker(1), pull);
  Contribute(0, 1, {1, 1, 1});
  Contribute(2, 1, {1, 1, 1});
  EXPECT_FALSE(driver_->answered(again));
  Decided(BeginDecide(1, {0, 1, 2}));
  ASSERT_TRUE(driver_->answered(again));
  const ShardDriver::Answer answer = driver_->Take(again);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(static_cast<const v1::PullReply&>(*answer.head).step(), 1u);
  EXPECT_THAT(Numbers(answer.payload), ElementsAre(-3, -3));
}

TEST_F(SyncStepTest, ALargeStepIsAppliedBlockByBlock) {
  v1::Configuration large = MakeConfiguration({Zeros("big", {600000})});
  *large.mutable_consistency() = Sync().consistency();
  *large.mutable_contributors() = Changed(Sync(), 1, {0}).contributors();
  Start(large);
  v1::PushRequest push = Head(0, 1, 1);
  for (const uint32_t elements : {262144, 262144, 75712}) {
    AddBlock(0, elements, &push);
    push.mutable_blocks(push.blocks_size() - 1)
        ->set_block(push.blocks_size() - 1);
  }
  Held(Begin(push, std::vector<float>(600000, 1.0f)));
  const CallId decide = BeginDecide(1, {0}, 1);
  EXPECT_FALSE(driver_->answered(decide));
  // While it is applied nothing is frozen and nothing is changed.
  v1::SealRequest seal = MakeSeal(1);
  EXPECT_EQ(
      RefusalOf(driver_->Call(PeerId::Coordinator(), seal).status).reason(),
      v1::Refusal::RETRY);
  EXPECT_EQ(
      RefusalOf(driver_->Configure(Changed(large, 2, {0})).status()).reason(),
      v1::Refusal::RETRY);
  EXPECT_EQ(Decided(decide).step(), 1u);
  EXPECT_EQ(driver_->Pull(0, 2), std::vector<float>(75712, -1.0f));
}

TEST_F(SyncStepTest, ASessionFencedMeanwhileIsNotAmongTheDecided) {
  Start(Sync());
  for (const uint32_t worker : {0, 1, 2}) Contribute(worker, 1, {1, 1, 1});
  v1::Configuration fenced = Sync();
  *fenced.mutable_version() = Pair(1, 2);
  *fenced.mutable_workers(1)->mutable_generation() = Pair(1, 20);
  ASSERT_TRUE(driver_->Configure(fenced).ok());
  EXPECT_THAT(RefusalOfCall(BeginDecide(1, {0, 1, 2})).message(),
              HasSubstr("worker-1, whose contribution is not wholly here"));
  EXPECT_THAT(Values(), ElementsAre(0, 0, 0));
}

TEST_F(SyncStepTest, WhoWaitsHearsOfTheEnd) {
  Start(Sync());
  v1::PullRequest pull;
  *pull.mutable_header()->mutable_generation() = Pair(1, 10);
  pull.set_encoding(v1::FP32);
  pull.set_after_step(1);
  const CallId pulled = driver_->Begin(PeerId::Worker(0), pull);
  const CallId decide = BeginDecide(0, {});
  v1::FinishRequest finish;
  finish.mutable_header()->set_term(1);
  ASSERT_TRUE(driver_->Call(PeerId::Coordinator(), finish).status.ok());
  for (const CallId call : {pulled, decide}) {
    EXPECT_EQ(RefusalOf(RefusalOfCall(call)).reason(),
              v1::Refusal::JOB_FINISHED);
  }
}

}  // namespace
}  // namespace paramd
