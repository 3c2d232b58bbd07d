#include "coordinator/core/sync_steps.h"

#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/channel_norms.h"
#include "config/magnitudes.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Pair;

// Two servers; 10 examples, two epochs, contributions of 2.
SyncSteps::Options Small(uint32_t backup_workers = 0) {
  return {.servers = 2,
          .examples = 10,
          .epochs = 2,
          .batch = 2,
          .backup_workers = backup_workers};
}

class SyncStepsTest : public ::testing::Test {
 protected:
  void Begin(const SyncSteps::Options& options,
             const std::vector<uint32_t>& workers) {
    steps_.emplace(options);
    Contribute(workers);
  }
  void Contribute(const std::vector<uint32_t>& workers) {
    steps_->SetContributors(steps_->Propose(workers, Pair(1, ++version_)),
                            now_);
  }
  void Answer(uint32_t server, uint64_t step,
              const std::vector<uint32_t>& complete) {
    v1::DecideReply reply;
    reply.set_step(step);
    *reply.mutable_contributors() = steps_->contributors().version();
    reply.mutable_complete()->Assign(complete.begin(), complete.end());
    steps_->Answered(server, reply);
  }

  // The contribution of worker 0 is complete, and weights of entry 0 of
  // optimizer.pruning are these; half of all is to be zero.
  void AnswerWith(uint32_t server, uint64_t step,
                  const std::vector<float>& weights) {
    v1::DecideReply reply;
    reply.set_step(step);
    *reply.mutable_contributors() = steps_->contributors().version();
    reply.add_complete(0);
    v1::MagnitudeCounts* const counts = reply.add_magnitudes();
    counts->set_share(0.5);
    Magnitudes magnitudes;
    magnitudes.AddValues(weights);
    magnitudes.Fill(counts);
    steps_->Answered(server, reply);
  }

  // Sessions 1.5 and 1.6 on lives 1.1 and 1.2.
  std::string Waits() const {
    return steps_->waiting_for({{0, Pair(1, 5)}, {1, Pair(1, 6)}},
                               {Pair(1, 1), Pair(1, 2)});
  }

  uint64_t version_ = 0;
  const Time now_ = Time::FromNanoseconds(1);
  absl::optional<SyncSteps> steps_;
};

TEST_F(SyncStepsTest, AStepIsDecidedWhenAllContributionsAreOnEveryServer) {
  Begin(Small(), {0, 1});
  EXPECT_TRUE(steps_->settled());
  EXPECT_FALSE(steps_->Decide(now_));
  Answer(0, 0, {0, 1});
  Answer(1, 0, {1});
  EXPECT_FALSE(steps_->Decide(now_));
  EXPECT_EQ(Waits(), "worker-0 generation 1.5 to contribute to step 1");
  Answer(1, 0, {0, 1});
  EXPECT_TRUE(steps_->Decide(now_));
  EXPECT_EQ(steps_->step(), 1u);
  const v1::DecideRequest request = steps_->RequestFor(1);
  EXPECT_EQ(request.step(), 1u);
  EXPECT_EQ(request.examples(), 4u);
  EXPECT_THAT(request.workers(), ElementsAre(0, 1));
  EXPECT_THAT(request.known_complete(), IsEmpty());
}

TEST_F(SyncStepsTest, TheNextStepWaitsUntilEveryServerHasAppliedTheOneBefore) {
  Begin(Small(), {0});
  Answer(0, 0, {0});
  Answer(1, 0, {0});
  ASSERT_TRUE(steps_->Decide(now_));
  EXPECT_FALSE(steps_->settled());
  Answer(0, 1, {0});
  EXPECT_EQ(Waits(), "ps-1 generation 1.2 to apply step 1");
  EXPECT_EQ(steps_->waiting_for({}, {}), "ps-1 to apply step 1");
  // An answer that was under way says nothing of the next step.
  Answer(1, 0, {0});
  EXPECT_FALSE(steps_->Decide(now_));
  Answer(1, 1, {});
  EXPECT_TRUE(steps_->settled());
  EXPECT_FALSE(steps_->Decide(now_));
  Answer(1, 1, {0});
  EXPECT_TRUE(steps_->Decide(now_));
}

TEST_F(SyncStepsTest, AServerDoesNotGoBack) {
  Begin(Small(), {0});
  Answer(0, 0, {0});
  Answer(1, 0, {0});
  ASSERT_TRUE(steps_->Decide(now_));
  Answer(0, 1, {});
  Answer(1, 1, {});
  Answer(1, 0, {0});
  EXPECT_TRUE(steps_->settled());
  Answer(1, 7, {0});
  EXPECT_TRUE(steps_->settled());
}

TEST_F(SyncStepsTest, TheInputIsTakenInStepsOfAllContributors) {
  Begin(Small(), {0, 1});
  std::vector<uint64_t> examples;
  while (!steps_->finished()) {
    Answer(0, steps_->step(), {0, 1});
    Answer(1, steps_->step(), {0, 1});
    ASSERT_TRUE(steps_->Decide(now_));
    examples.push_back(steps_->RequestFor(0).examples());
    Answer(0, steps_->step(), {});
    Answer(1, steps_->step(), {});
  }
  EXPECT_THAT(examples, ElementsAre(4, 4, 2, 4, 4, 2));
  EXPECT_FALSE(steps_->Decide(now_));
  EXPECT_EQ(Waits(), "");
}

TEST_F(SyncStepsTest, ChangedContributorsBeginWithTheNextStepAndItsInput) {
  Begin(Small(), {0, 1});
  Answer(0, 0, {0, 1});
  Answer(1, 0, {0, 1});
  ASSERT_TRUE(steps_->Decide(now_));
  Answer(0, 1, {0});
  Answer(1, 1, {0});
  Contribute({0});
  EXPECT_EQ(steps_->contributors().first_step(), 2u);
  EXPECT_EQ(steps_->contributors().input().next_offset(), 4u);
  EXPECT_TRUE(steps_->settled());
  // What was whole under the old ones is not any more.
  EXPECT_FALSE(steps_->Decide(now_));
  Answer(0, 1, {0});
  Answer(1, 1, {0});
  EXPECT_TRUE(steps_->Decide(now_));
  EXPECT_EQ(steps_->RequestFor(0).examples(), 2u);
}

TEST_F(SyncStepsTest, AnAnswerOfOtherContributorsIsIgnored) {
  Begin(Small(), {0});
  v1::DecideReply old;
  *old.mutable_contributors() = Pair(1, 7);
  old.add_complete(0);
  steps_->Answered(0, old);
  Answer(1, 0, {0});
  EXPECT_FALSE(steps_->Decide(now_));
}

TEST_F(SyncStepsTest, WithBackupWorkersTheSlowestAreLeftOut) {
  Begin(Small(/*backup_workers=*/1), {0, 1, 2});
  Answer(0, 0, {0, 2});
  Answer(1, 0, {0, 1});
  EXPECT_FALSE(steps_->Decide(now_));
  Answer(1, 0, {0, 1, 2});
  ASSERT_TRUE(steps_->Decide(now_));
  EXPECT_THAT(steps_->RequestFor(0).workers(), ElementsAre(0, 2));
  EXPECT_EQ(steps_->RequestFor(0).examples(), 6u);
}

TEST_F(SyncStepsTest, WhoIsLeftOutIsKnownUntilTheJobGoesBack) {
  Begin(Small(/*backup_workers=*/1), {0, 1, 2});
  EXPECT_EQ(steps_->LeftOutStep(1), 0u);
  Answer(0, 0, {0, 2});
  Answer(1, 0, {0, 1, 2});
  ASSERT_TRUE(steps_->Decide(now_));
  EXPECT_EQ(steps_->LeftOutStep(1), 1u);
  EXPECT_EQ(steps_->LeftOutStep(0), 0u);
  EXPECT_EQ(steps_->LeftOutStep(9), 0u);
  steps_->Restore(0, v1::SavedInput());
  EXPECT_EQ(steps_->LeftOutStep(1), 0u);
}

TEST_F(SyncStepsTest, AStepIsNeverOfWorkersWithoutExamplesAlone) {
  Begin(Small(/*backup_workers=*/2), {0, 1, 2});
  Answer(0, 0, {0, 1, 2});
  Answer(1, 0, {0, 1, 2});
  ASSERT_TRUE(steps_->Decide(now_));
  // Step 2 has the examples 6 to 10: none for the third worker.
  Answer(0, 1, {2});
  Answer(1, 1, {2});
  EXPECT_FALSE(steps_->Decide(now_));
  Answer(0, 1, {1, 2});
  Answer(1, 1, {1, 2});
  EXPECT_TRUE(steps_->Decide(now_));
}

TEST_F(SyncStepsTest, MoreBackupWorkersThanWorkersStillNeedOne) {
  Begin(Small(/*backup_workers=*/3), {0, 1});
  EXPECT_FALSE(steps_->Decide(now_));
  Answer(0, 0, {1});
  Answer(1, 0, {1});
  EXPECT_TRUE(steps_->Decide(now_));
}

TEST_F(SyncStepsTest, AServerThatHasAllIsAskedWhenTheStepIsDecided) {
  Begin(Small(), {0, 1});
  EXPECT_TRUE(steps_->MustAsk(0));
  Answer(0, 0, {1});
  EXPECT_TRUE(steps_->MustAsk(0));
  Answer(0, 0, {0, 1});
  EXPECT_FALSE(steps_->MustAsk(0));
  Answer(1, 0, {0, 1});
  ASSERT_TRUE(steps_->Decide(now_));
  EXPECT_TRUE(steps_->MustAsk(0));
  EXPECT_TRUE(steps_->MustAsk(1));
}

TEST_F(SyncStepsTest, OneThresholdIsOfTheWeightsOfAllServers) {
  SyncSteps::Options options = Small();
  options.pruning = 2;
  Begin(options, {0});
  // What is said twice counts once.
  AnswerWith(0, 0, {1, -4, 5});
  AnswerWith(0, 0, {1, -4, 5});
  AnswerWith(1, 0, {2, 3, -6});
  ASSERT_TRUE(steps_->Decide(now_));
  for (const uint32_t server : {0, 1}) {
    const v1::DecideRequest request = steps_->RequestFor(server);
    ASSERT_EQ(request.thresholds_size(), 1);
    EXPECT_EQ(request.thresholds(0).pruning(), 0u);
    EXPECT_EQ(request.thresholds(0).magnitude(), 4);
  }
  // The next step has none, as long as nobody says that it is time.
  Answer(0, 1, {0});
  Answer(1, 1, {0});
  ASSERT_TRUE(steps_->Decide(now_));
  EXPECT_EQ(steps_->RequestFor(0).thresholds_size(), 0);
}

TEST_F(SyncStepsTest, AServerWithoutPrunedVariablesSaysNothingOfThem) {
  SyncSteps::Options options = Small();
  options.pruning = 1;
  Begin(options, {0});
  AnswerWith(0, 0, {1, 2});
  Answer(1, 0, {0});
  ASSERT_TRUE(steps_->Decide(now_));
  ASSERT_EQ(steps_->RequestFor(1).thresholds_size(), 1);
  EXPECT_EQ(steps_->RequestFor(1).thresholds(0).magnitude(), 2);
  steps_->Restore(0, v1::SavedInput());
  EXPECT_EQ(steps_->RequestFor(1).thresholds_size(), 0);
}

TEST_F(SyncStepsTest, WhatIsNoHistogramOrOfNoEntryMakesNoThreshold) {
  for (const uint32_t entry : {0, 1}) {
    SyncSteps::Options options = Small();
    options.pruning = 1;
    Begin(options, {0});
    AnswerWith(1, 0, {});
    v1::DecideReply reply;
    *reply.mutable_contributors() = steps_->contributors().version();
    reply.add_complete(0);
    v1::MagnitudeCounts* const counts = reply.add_magnitudes();
    counts->set_pruning(entry);
    counts->add_counts(5);  // Of no class.
    steps_->Answered(0, reply);
    ASSERT_TRUE(steps_->Decide(now_));
    // No weights at all have the threshold 0, below which nothing lies.
    EXPECT_EQ(steps_->RequestFor(0).thresholds_size(), entry == 0 ? 0 : 1);
  }
}

TEST_F(SyncStepsTest, ChannelsAreChosenByTheWeightsOfAllServers) {
  Begin(Small(), {0});
  const auto answer = [&](uint32_t server, const std::vector<float>& weights,
                          uint64_t first, size_t channels) {
    v1::DecideReply reply;
    *reply.mutable_contributors() = steps_->contributors().version();
    reply.add_complete(0);
    v1::ChannelSizes* const sizes = reply.add_channels();
    sizes->set_variable(3);
    sizes->set_share(0.5);
    ChannelNorms norms(channels);
    norms.AddValues(weights, first);
    norms.Fill(sizes);
    steps_->Answered(server, reply);
  };
  // The columns are (1, 5), (4, 0), (2, 3), (3, 3): 26, 16, 13, 18.
  answer(0, {1, 4, 2}, 0, 4);
  answer(0, {1, 4, 2}, 0, 4);
  answer(1, {3, 5, 0, 3, 3}, 3, 4);
  ASSERT_TRUE(steps_->Decide(now_));
  for (const uint32_t server : {0, 1}) {
    const v1::DecideRequest request = steps_->RequestFor(server);
    ASSERT_EQ(request.channels_size(), 1);
    EXPECT_EQ(request.channels(0).variable(), 3u);
    EXPECT_THAT(request.channels(0).channels(), ElementsAre(1, 2));
  }
  Answer(0, 1, {0});
  Answer(1, 1, {0});
  ASSERT_TRUE(steps_->Decide(now_));
  EXPECT_EQ(steps_->RequestFor(0).channels_size(), 0) << "of one step alone";
  // Servers that do not agree on how many there are prune none.
  Begin(Small(), {0});
  answer(0, {1, 4}, 0, 2);
  answer(1, {1, 4, 2}, 0, 3);
  ASSERT_TRUE(steps_->Decide(now_));
  EXPECT_EQ(steps_->RequestFor(0).channels_size(), 0);
}

TEST_F(SyncStepsTest, ARestoredJobGoesOnWhereItWas) {
  Begin(Small(), {0, 1});
  Answer(0, 0, {0, 1});
  Answer(1, 0, {0, 1});
  ASSERT_TRUE(steps_->Decide(now_));
  v1::SavedInput input;
  input.set_next_epoch(2);
  input.set_next_offset(8);
  steps_->Restore(5, input);
  EXPECT_TRUE(steps_->settled());
  EXPECT_EQ(steps_->step(), 5u);
  EXPECT_THAT(steps_->contributors().workers(), IsEmpty());
  EXPECT_FALSE(steps_->Decide(now_));
  Contribute({0, 1});
  EXPECT_EQ(steps_->contributors().first_step(), 6u);
  Answer(0, 5, {0, 1});
  Answer(1, 5, {0, 1});
  EXPECT_TRUE(steps_->Decide(now_));
  EXPECT_TRUE(steps_->finished());
}

}  // namespace
}  // namespace paramd
