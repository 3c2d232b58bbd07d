#include "coordinator/core/summaries.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::WorkerStats Worker(double examples_per_second) {
  v1::WorkerStats stats;
  stats.set_examples_per_second(examples_per_second);
  return stats;
}

// As told by worker 0 since it joined.
void Train(uint64_t examples, double loss, Summaries* summaries) {
  v1::WorkerStats stats;
  stats.set_examples(examples);
  stats.set_loss_sum(loss);
  v1::SessionId generation;
  generation.set_term(1);
  summaries->training().Told(0, generation, /*taken_over=*/false, stats);
}

v1::ConfigureReply Server(std::vector<uint64_t> histogram, uint64_t sum,
                          double learning_rate) {
  v1::ConfigureReply reply;
  uint64_t blocks = 0;
  for (const uint64_t count : histogram) {
    blocks += count;
    reply.mutable_staleness()->add_histogram(count);
  }
  reply.mutable_staleness()->set_blocks(blocks);
  reply.mutable_staleness()->set_sum(sum);
  reply.set_learning_rate(learning_rate);
  return reply;
}

v1::Evaluation Evaluation(uint64_t correct, double loss) {
  v1::Evaluation evaluation;
  evaluation.set_epoch(1);
  evaluation.set_examples(1000);
  (*evaluation.mutable_metrics())["accuracy"] =
      static_cast<double>(correct) / 1000;
  evaluation.set_loss(loss);
  return evaluation;
}

// Summaries of a job that has begun, as it was said.
Summaries Begun(uint64_t every_steps, uint64_t step = 0) {
  Summaries summaries(every_steps);
  summaries.Begin(step);
  summaries.Take(step, {});
  summaries.Written();
  return summaries;
}

TEST(SummariesTest, TheFirstSaysFromWhichStepTheJobGoesOn) {
  Summaries summaries(100);
  summaries.Begin(250);
  ASSERT_TRUE(summaries.IsDue(260));
  const auto first = summaries.Take(260, {});
  EXPECT_TRUE(first->restarted());
  EXPECT_EQ(first->step(), 250u);
  EXPECT_TRUE(first->scalars().empty());
}

TEST(SummariesTest, OneIsDueAtEachMultiple) {
  Summaries summaries = Begun(100, 250);
  EXPECT_FALSE(summaries.IsDue(299));
  EXPECT_TRUE(summaries.IsDue(300));
  const auto summary = summaries.Take(317, {});
  EXPECT_FALSE(summary->restarted());
  EXPECT_EQ(summary->step(), 317u);
  summaries.Written();
  EXPECT_FALSE(summaries.IsDue(399));
  EXPECT_TRUE(summaries.IsDue(400));
}

TEST(SummariesTest, OneIsUnderWayAtATime) {
  Summaries summaries = Begun(100);
  summaries.Take(100, {});
  summaries.Evaluated(Evaluation(500, 1));
  EXPECT_FALSE(summaries.IsDue(200));
  summaries.Written();
  EXPECT_TRUE(summaries.IsDue(200));
}

TEST(SummariesTest, NothingIsDueIfNothingIsAskedFor) {
  Summaries summaries(0);
  summaries.Begin(0);
  summaries.Evaluated(Evaluation(500, 1));
  EXPECT_FALSE(summaries.IsDue(1'000'000));
}

TEST(SummariesTest, TheRateIsThatOfAllWorkers) {
  Summaries summaries = Begun(1);
  const v1::WorkerStats fast = Worker(300);
  const v1::WorkerStats slow = Worker(100);
  auto summary = summaries.Take(1, {&fast, &slow});
  EXPECT_EQ(summary->scalars().at("examples_per_second"), 400);
  EXPECT_EQ(summary->scalars().at("workers"), 2);
  summaries.Written();
  const v1::WorkerStats stalled;
  summary = summaries.Take(2, {&stalled});
  EXPECT_EQ(summary->scalars().at("examples_per_second"), 0);
}

TEST(SummariesTest, TheLossHasOnePointForEachNewValue) {
  Summaries summaries = Begun(1);
  EXPECT_EQ(summaries.Take(1, {})->scalars().count("train/loss"), 0u);
  summaries.Written();
  Train(100, 125, &summaries);
  EXPECT_EQ(summaries.Take(2, {})->scalars().at("train/loss"), 1.25);
  summaries.Written();
  EXPECT_EQ(summaries.Take(3, {})->scalars().count("train/loss"), 0u);
  summaries.Written();
  Train(200, 175, &summaries);
  EXPECT_EQ(summaries.Take(4, {})->scalars().at("train/loss"), 0.5);
}

TEST(SummariesTest, AJobThatEndsBeforeItsFirstSummaryIsDueHasALoss) {
  Summaries summaries = Begun(100);
  Train(100, 125, &summaries);
  EXPECT_FALSE(summaries.IsDue(7));
  ASSERT_TRUE(summaries.IsDue(7, /*ending=*/true));
  const auto summary = summaries.Take(7, {}, /*ending=*/true);
  EXPECT_EQ(summary->step(), 7u);
  EXPECT_EQ(summary->scalars().at("train/loss"), 1.25);
  summaries.Written();
  EXPECT_FALSE(summaries.IsDue(7, /*ending=*/true));
}

TEST(SummariesTest, StalenessIsThatSinceTheSummaryBefore) {
  Summaries summaries = Begun(1);
  summaries.Told(0, Server({2, 2, 0}, 2, 0.1));
  summaries.Told(1, Server({0, 0, 4}, 10, 0.1));
  auto summary = summaries.Take(1, {});
  EXPECT_EQ(summary->scalars().at("staleness/mean"), 1.5);
  EXPECT_EQ(summary->scalars().at("staleness/max"), 3);
  summaries.Written();
  summaries.Told(0, Server({2, 6, 0}, 6, 0.1));
  summary = summaries.Take(2, {});
  EXPECT_EQ(summary->scalars().at("staleness/mean"), 1);
  EXPECT_EQ(summary->scalars().at("staleness/max"), 1);
}

TEST(SummariesTest, AServerThatCountsFromZeroIsAnotherLife) {
  Summaries summaries = Begun(1);
  summaries.Told(0, Server({9, 1}, 1, 0.1));
  summaries.Take(1, {});
  summaries.Written();
  summaries.Told(0, Server({1, 1}, 1, 0.1));
  const auto summary = summaries.Take(2, {});
  EXPECT_EQ(summary->scalars().at("staleness/mean"), 0.5);
}

TEST(SummariesTest, AnotherLifeMayHaveCountedMoreThanTheOneBefore) {
  Summaries summaries = Begun(1);
  summaries.Told(0, Server({0, 0, 4}, 10, 0.1));
  summaries.Take(1, {});
  summaries.Written();
  // More blocks, but less stale ones.
  summaries.Told(0, Server({4, 4, 0}, 4, 0.1));
  const auto summary = summaries.Take(2, {});
  EXPECT_EQ(summary->scalars().at("staleness/mean"), 0.5);
  EXPECT_EQ(summary->scalars().at("staleness/max"), 1);
}

TEST(SummariesTest, TheRateIsThatOfTheServerWhichIsFurthest) {
  Summaries summaries = Begun(1);
  EXPECT_EQ(summaries.Take(1, {})->scalars().count("learning_rate"), 0u);
  summaries.Written();
  summaries.Told(0, Server({}, 0, 0.25));
  summaries.Told(1, Server({}, 0, 0.125));
  EXPECT_EQ(summaries.Take(2, {})->scalars().at("learning_rate"), 0.125);
}

TEST(SummariesTest, AnEvaluationThatIsToldAgainIsWrittenOnce) {
  Summaries summaries = Begun(100);
  v1::Evaluation evaluation = Evaluation(875, 0.25);
  for (int i = 0; i < 2; ++i) {
    summaries.Evaluated(evaluation);
    ASSERT_TRUE(summaries.IsDue(10)) << i;
    summaries.Take(10, {});
    summaries.Written();
    summaries.Evaluated(evaluation);
    EXPECT_FALSE(summaries.IsDue(10)) << i;
    evaluation.set_final(true);
  }
}

TEST(SummariesTest, AnEvaluationIsWrittenAtOnceAndAlone) {
  Summaries summaries = Begun(100);
  summaries.Evaluated(Evaluation(875, 0.25));
  ASSERT_TRUE(summaries.IsDue(10));
  const auto summary = summaries.Take(10, {});
  EXPECT_EQ(summary->step(), 10u);
  ASSERT_EQ(summary->scalars().size(), 2u);
  EXPECT_EQ(summary->scalars().at("evaluation/accuracy"), 0.875);
  EXPECT_EQ(summary->scalars().at("evaluation/loss"), 0.25);
  summaries.Written();
  EXPECT_FALSE(summaries.IsDue(10));
}

}  // namespace
}  // namespace paramd
