#include "coordinator/core/training_loss.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::SessionId Generation(uint64_t counter) {
  return MakeNumber<v1::SessionId>(1, counter);
}

v1::WorkerStats Sums(uint64_t examples, double loss) {
  v1::WorkerStats stats;
  stats.set_examples(examples);
  stats.set_loss_sum(loss);
  return stats;
}

v1::Evaluation EvaluationOf(uint64_t correct, double loss) {
  v1::Evaluation evaluation;
  evaluation.set_examples(10'000);
  evaluation.set_labels(10'000);
  evaluation.set_correct(correct);
  evaluation.set_classes(10);
  evaluation.set_loss(loss);
  return evaluation;
}

TEST(TrainingLossTest, EachExampleIsInOneMean) {
  TrainingLoss loss;
  loss.Begin(0);
  EXPECT_FALSE(loss.has_unreported());
  loss.Told(0, Generation(1), false, Sums(300, 300));
  loss.Told(1, Generation(2), false, Sums(100, 200));
  ASSERT_TRUE(loss.has_unreported());
  EXPECT_EQ(loss.TakeMeans().at("loss"), 1.25);
  loss.Told(0, Generation(1), false, Sums(300, 300));
  EXPECT_FALSE(loss.has_unreported()) << "it was told again";
  loss.Told(0, Generation(1), false, Sums(310, 305));
  EXPECT_EQ(loss.TakeMeans().at("loss"), 0.5);
}

TEST(TrainingLossTest, MetricsAreMergedOverWorkersByWhatTheyCounted) {
  TrainingLoss loss;
  loss.Begin(0);
  const auto told = [](double correct, double labels, double nats) {
    v1::WorkerStats stats = Sums(static_cast<uint64_t>(labels), 0);
    v1::MetricSum* sum = stats.add_metrics();
    sum->set_name("accuracy");
    sum->set_sum(correct);
    sum->set_count(labels);
    sum = stats.add_metrics();
    sum->set_name("perplexity");
    sum->set_sum(nats);
    sum->set_count(labels);
    sum->set_exp(true);
    return stats;
  };
  loss.Told(0, Generation(1), false, told(30, 60, 90));
  loss.Told(1, Generation(2), false, told(10, 20, 70));
  std::map<std::string, double> means = loss.TakeMeans();
  EXPECT_EQ(means.size(), 3u);
  EXPECT_EQ(means.at("accuracy"), 0.5);
  EXPECT_EQ(means.at("perplexity"), std::exp(2));
  loss.Told(0, Generation(1), false, told(38, 70, 100));
  means = loss.TakeMeans();
  EXPECT_EQ(means.at("accuracy"), 0.8);
  EXPECT_EQ(means.at("perplexity"), std::exp(1));
}

TEST(TrainingLossTest, AnotherSessionCountsAnew) {
  TrainingLoss loss;
  loss.Begin(0);
  loss.Told(0, Generation(1), false, Sums(300, 300));
  loss.TakeMeans();
  loss.Told(0, Generation(2), false, Sums(10, 5));
  EXPECT_EQ(loss.TakeMeans().at("loss"), 0.5);
}

TEST(TrainingLossTest, OneThatIsTakenOverCountsFromWhatItTellsFirst) {
  TrainingLoss loss;
  loss.Begin(100);
  loss.Told(0, Generation(1), true, Sums(300, 300));
  EXPECT_FALSE(loss.has_unreported());
  loss.Told(0, Generation(1), true, Sums(310, 305));
  EXPECT_EQ(loss.TakeMeans().at("loss"), 0.5);
}

TEST(TrainingLossTest, WhatWasToldOfStepsThatAreMadeAgainIsInNoMean) {
  TrainingLoss loss;
  loss.Begin(0);
  loss.Told(0, Generation(1), false, Sums(300, 300));
  loss.Begin(0);
  EXPECT_FALSE(loss.has_unreported());
}

TEST(TrainingWarningsTest, AJobThatHasLearntNeedsNone) {
  TrainingLoss loss;
  loss.Begin(0);
  loss.Told(0, Generation(1), false, Sums(2'000, 4'600));
  loss.Told(0, Generation(1), false, Sums(4'000, 5'000));
  EXPECT_EQ(loss.first(), 2.3);
  EXPECT_EQ(loss.newest(), 0.2);
  EXPECT_THAT(TrainingWarnings(EvaluationOf(8'800, 0.3), loss), IsEmpty());
  EXPECT_THAT(TrainingWarnings(v1::Evaluation(), loss), IsEmpty());
}

TEST(TrainingWarningsTest, AnAccuracyThatGuessingHasIsSaid) {
  EXPECT_THAT(TrainingWarnings(EvaluationOf(1'000, 2.3), TrainingLoss()),
              ElementsAre(HasSubstr("1000 of 10000 examples")));
  EXPECT_THAT(TrainingWarnings(EvaluationOf(1'080, 2.3), TrainingLoss()),
              ElementsAre(HasSubstr("guessing among 10 classes")));
  EXPECT_THAT(TrainingWarnings(EvaluationOf(1'100, 2.3), TrainingLoss()),
              IsEmpty());
}

TEST(TrainingWarningsTest, OfFewExamplesNobodyCanTellWhetherTheyWereGuessed) {
  v1::Evaluation evaluation = EvaluationOf(8, 0.1);
  evaluation.set_classes(2);
  evaluation.set_examples(8);
  evaluation.set_labels(8);
  EXPECT_THAT(TrainingWarnings(evaluation, TrainingLoss()), IsEmpty());
  evaluation.set_labels(60);
  EXPECT_THAT(TrainingWarnings(evaluation, TrainingLoss()),
              ElementsAre(HasSubstr("8 of 60 labels")));
}

TEST(TrainingWarningsTest, ALossThatIsNotFiniteIsSaid) {
  EXPECT_THAT(TrainingWarnings(
                  EvaluationOf(5'000, std::numeric_limits<double>::infinity()),
                  TrainingLoss()),
              ElementsAre(HasSubstr("the loss on the test set is inf")));
}

TEST(TrainingWarningsTest, ALossAboveItsStartIsSaid) {
  TrainingLoss loss;
  loss.Begin(0);
  loss.Told(0, Generation(1), false, Sums(1'000, 2'000));
  loss.Told(0, Generation(1), false, Sums(2'000, 5'000));
  EXPECT_THAT(
      TrainingWarnings(EvaluationOf(5'000, 3), loss),
      ElementsAre(HasSubstr("is 3 at the end, above the 2 that it began")));
}

TEST(TrainingWarningsTest, ALossThatBeganInAnEarlierRunIsComparedWithNothing) {
  TrainingLoss loss;
  loss.Begin(500);
  loss.Told(0, Generation(1), false, Sums(1'000, 200));
  loss.Told(0, Generation(1), false, Sums(2'000, 450));
  EXPECT_THAT(TrainingWarnings(EvaluationOf(9'000, 0.3), loss), IsEmpty());
}

TEST(ScheduleWarningsTest, WhatTheStepsDidNotReachIsSaid) {
  using Pruning = v1::OptimizerConfig::Pruning;
  v1::JobConfig job;
  EXPECT_THAT(ScheduleWarnings(job, 0), IsEmpty());
  Pruning* const pruning = job.mutable_optimizer()->add_pruning();
  pruning->set_variables("*/kernel");
  pruning->set_end_step(80);
  EXPECT_THAT(ScheduleWarnings(job, 80), IsEmpty());
  EXPECT_THAT(
      ScheduleWarnings(job, 79),
      ElementsAre("optimizer.pruning of '*/kernel' ends with end_step 80, and "
                  "the run has 79 steps: fewer weights are zero than its "
                  "sparsity says; give more epochs, or an earlier step"));
  pruning->set_scope(Pruning::GLOBAL);
  EXPECT_THAT(ScheduleWarnings(job, 81), IsEmpty());
  EXPECT_THAT(ScheduleWarnings(job, 80), SizeIs(1));
  pruning->set_scope(Pruning::BLOCK);
  pruning->set_structure(Pruning::CHANNELS);
  EXPECT_THAT(ScheduleWarnings(job, 80), SizeIs(1));
  job.mutable_model()->mutable_quantization_aware()->set_begin_step(100);
  EXPECT_THAT(ScheduleWarnings(job, 101), IsEmpty());
  EXPECT_THAT(ScheduleWarnings(job, 100),
              ElementsAre(HasSubstr("it was not trained to be quantised")));
}

}  // namespace
}  // namespace paramd
