#include "coordinator/core/checkpoint_metrics.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::Evaluation Evaluation(uint64_t correct, double loss) {
  v1::Evaluation evaluation;
  evaluation.set_examples(10);
  (*evaluation.mutable_metrics())["accuracy"] =
      static_cast<double>(correct) / 10;
  evaluation.set_loss(loss);
  return evaluation;
}

v1::Manifest Filled(const CheckpointMetrics& metrics) {
  v1::Manifest manifest;
  metrics.Fill(&manifest);
  return manifest;
}

TEST(CheckpointMetricsTest, TheNewestEvaluationBeforeTheOpeningIsNamed) {
  CheckpointMetrics metrics;
  metrics.Evaluated(Evaluation(3, 2.5), 10);
  metrics.Evaluated(Evaluation(4, 1.5), 20);
  metrics.Opened();
  metrics.Evaluated(Evaluation(5, 0.5), 30);
  const v1::Manifest manifest = Filled(metrics);
  EXPECT_EQ(manifest.metrics().at("accuracy"), 0.4);
  EXPECT_EQ(manifest.metrics().at("loss"), 1.5);
  EXPECT_EQ(manifest.metrics_step(), 20u);
}

TEST(CheckpointMetricsTest, AModelWithoutAccuracyIsNotRankedByOne) {
  CheckpointMetrics metrics;
  v1::Evaluation evaluation;
  evaluation.set_examples(10);
  evaluation.set_loss(0.5);
  (*evaluation.mutable_metrics())["mse"] = 0.5;
  metrics.Evaluated(evaluation, 10);
  metrics.Opened();
  const v1::Manifest manifest = Filled(metrics);
  EXPECT_EQ(manifest.metrics().size(), 2u);
  EXPECT_EQ(manifest.metrics().at("mse"), 0.5);
  EXPECT_EQ(manifest.metrics().at("loss"), 0.5);
}

TEST(CheckpointMetricsTest, WithoutAnEvaluationThereIsNone) {
  CheckpointMetrics metrics;
  metrics.Opened();
  EXPECT_TRUE(Filled(metrics).metrics().empty());
  EXPECT_EQ(Filled(metrics).metrics_step(), 0u);
}

TEST(CheckpointMetricsTest, ARestartGoesOnWithThoseOfItsCheckpoint) {
  v1::Manifest found;
  (*found.mutable_metrics())["accuracy"] = 0.75;
  found.set_metrics_step(40);
  found.set_global_step(44);
  CheckpointMetrics metrics;
  metrics.Restored(found);
  metrics.Opened();
  EXPECT_EQ(Filled(metrics).metrics().at("accuracy"), 0.75);
  EXPECT_EQ(Filled(metrics).metrics_step(), 40u);
  EXPECT_EQ(Filled(metrics).global_step(), 0u);
}

TEST(CheckpointMetricsTest, ARewindForgetsWhatWasEvaluatedSince) {
  CheckpointMetrics metrics;
  metrics.Evaluated(Evaluation(3, 2.5), 10);
  metrics.Opened();
  metrics.Committed();
  metrics.Evaluated(Evaluation(9, 0.1), 20);
  metrics.Rewind();
  metrics.Opened();
  EXPECT_EQ(Filled(metrics).metrics_step(), 10u);
}

TEST(RetentionOfTest, FollowsTheSettings) {
  v1::CheckpointConfig config;
  config.set_keep(4);
  config.set_keep_every_steps(100);
  config.set_keep_every_hours(1.5);
  config.set_keep_best(2);
  v1::Manifest newest;
  (*newest.mutable_metrics())["accuracy"] = 0.5;
  v1::Retention retention = RetentionOf(config, "", newest);
  EXPECT_EQ(retention.keep(), 4u);
  EXPECT_EQ(retention.every_steps(), 100u);
  EXPECT_EQ(retention.every_hours(), 1.5);
  EXPECT_EQ(retention.best(), 2u);
  EXPECT_EQ(retention.metric(), "accuracy");
  EXPECT_FALSE(retention.lower_is_better());
  EXPECT_EQ(RetentionOf(config, "", v1::Manifest()).metric(), "loss");
  EXPECT_TRUE(RetentionOf(config, "", v1::Manifest()).lower_is_better());
  retention = RetentionOf(config, "perplexity", newest);
  EXPECT_EQ(retention.metric(), "perplexity");
  EXPECT_TRUE(retention.lower_is_better());
}

}  // namespace
}  // namespace paramd
