#include "worker/best_metric.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

using Config = v1::CheckpointConfig;

absl::StatusOr<std::string> Best(Config::BestMetric wanted,
                                 const std::vector<std::string>& metrics) {
  Config config;
  config.set_best_metric(wanted);
  return BestMetric(config, metrics);
}

TEST(BestMetricTest, UnlessToldTheEvaluationsDecide) {
  EXPECT_EQ(*Best(Config::AUTO, {"mse"}), "");
  EXPECT_EQ(*BestMetric(Config(), {}), "");
}

TEST(BestMetricTest, EveryMetricOfTheModelMayBeChosen) {
  EXPECT_EQ(*Best(Config::LOSS, {"accuracy"}), "loss");
  EXPECT_EQ(*Best(Config::TOP_K, {"accuracy", "top_3"}), "top_3");
  EXPECT_EQ(*Best(Config::PERPLEXITY, {"perplexity"}), "perplexity");
  EXPECT_EQ(*Best(Config::MSE, {"mse"}), "mse");
  EXPECT_EQ(*Best(Config::AUC, {"accuracy", "auc"}), "auc");
  EXPECT_EQ(*Best(Config::GROUP_AUC, {"auc", "group_auc"}), "group_auc");
  EXPECT_EQ(*Best(Config::RECALL_AT_K, {"top_3", "recall_at_3"}),
            "recall_at_3");
  EXPECT_EQ(*Best(Config::NORMALISED_ENTROPY, {"normalised_entropy"}),
            "normalised_entropy");
}

TEST(BestMetricTest, OneThatTheModelDoesNotHaveIsRefused) {
  absl::Status status = Best(Config::ACCURACY, {"mse"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("checkpoint.best_metric is accuracy; the model counts "
                        "mse and the loss: choose one"));
  status = Best(Config::AUC, {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("counts the loss"));
}

TEST(BestMetricTest, OfSeveralOutputsOneIsChosenByName) {
  const std::vector<std::string> metrics = {"click/loss", "click/accuracy",
                                            "click/auc", "buy/loss", "buy/auc"};
  Config config;
  config.set_best_metric(Config::AUC);
  EXPECT_EQ(*BestMetric(config, metrics), "click/auc");
  config.set_best_output("buy");
  EXPECT_EQ(*BestMetric(config, metrics), "buy/auc");
  config.set_best_metric(Config::LOSS);
  EXPECT_EQ(*BestMetric(config, metrics), "buy/loss");
  config.set_best_metric(Config::AUTO);
  EXPECT_EQ(*BestMetric(config, metrics), "buy/loss");
  config.set_best_output("click");
  EXPECT_EQ(*BestMetric(config, metrics), "click/accuracy");
  config.clear_best_output();
  EXPECT_EQ(*BestMetric(config, metrics), "");
  config.set_best_metric(Config::LOSS);
  EXPECT_EQ(*BestMetric(config, metrics), "loss");
  config.set_best_metric(Config::ACCURACY);
  config.set_best_output("buy");
  EXPECT_THAT(std::string(BestMetric(config, metrics).status().message()),
              HasSubstr("checkpoint.best_metric is accuracy of the output "
                        "'buy'; the model counts click/loss, "));
}

}  // namespace
}  // namespace paramd
