#include "coordinator/core/epoch_trainings.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::SessionId SessionOf(uint64_t counter) {
  return MakeNumber<v1::SessionId>(1, counter);
}

// Adds what a session did in an epoch.
void AddEpoch(uint32_t epoch, uint64_t examples, double loss,
              v1::WorkerStats* stats) {
  v1::EpochSums* const sums = stats->add_epochs();
  sums->set_epoch(epoch);
  sums->set_examples(examples);
  sums->set_loss_sum(loss);
  v1::MetricSum* const metric = sums->add_metrics();
  metric->set_name("accuracy");
  metric->set_sum(static_cast<double>(examples) / 2);
  metric->set_count(static_cast<double>(examples));
}

v1::WorkerStats Epoch(uint32_t epoch, uint64_t examples, double loss) {
  v1::WorkerStats stats;
  AddEpoch(epoch, examples, loss, &stats);
  return stats;
}

// "epoch: loss over examples", in order.
std::vector<std::string> Texts(const EpochTrainings& trainings) {
  std::vector<std::string> texts;
  for (const v1::EpochTraining& one : trainings.All()) {
    texts.push_back(
        absl::StrCat(one.epoch(), ": ", one.loss(), " over ", one.examples()));
    EXPECT_EQ(one.metrics().at("accuracy"), 0.5);
  }
  return texts;
}

TEST(EpochTrainingsTest, ALossIsOfAllWorkersByTheirExamples) {
  EpochTrainings trainings;
  EXPECT_THAT(Texts(trainings), IsEmpty());
  v1::WorkerStats both = Epoch(1, 30, 60);
  AddEpoch(2, 10, 10, &both);
  trainings.Told(0, SessionOf(1), both);
  trainings.Told(1, SessionOf(2), Epoch(1, 10, 60));
  EXPECT_THAT(Texts(trainings), ElementsAre("1: 3 over 40", "2: 1 over 10"));
}

TEST(EpochTrainingsTest, WhatIsToldAgainCountsOnce) {
  EpochTrainings trainings;
  trainings.Told(0, SessionOf(1), Epoch(1, 10, 20));
  trainings.Told(0, SessionOf(1), Epoch(1, 10, 20));
  trainings.Told(0, SessionOf(1), Epoch(1, 20, 60));
  EXPECT_THAT(Texts(trainings), ElementsAre("1: 3 over 20"));
  // A session begins to count anew.
  trainings.Told(0, SessionOf(5), Epoch(1, 20, 20));
  EXPECT_THAT(Texts(trainings), ElementsAre("1: 2 over 40"));
}

TEST(EpochTrainingsTest, WhatIsTrainedAnewIsForgotten) {
  EpochTrainings trainings;
  v1::WorkerStats all = Epoch(1, 10, 10);
  AddEpoch(2, 10, 20, &all);
  AddEpoch(3, 10, 30, &all);
  trainings.Told(0, SessionOf(1), all);
  trainings.ForgetFrom(2);
  EXPECT_THAT(Texts(trainings), ElementsAre("1: 1 over 10"));
  trainings.Told(0, SessionOf(2), Epoch(2, 4, 2));
  EXPECT_THAT(Texts(trainings), ElementsAre("1: 1 over 10", "2: 0.5 over 4"));
}

TEST(EpochTrainingsTest, Promise8_OldEpochsAreForgotten) {
  EpochTrainings trainings;
  for (uint32_t epoch = 1; epoch <= EpochTrainings::kMostEpochs + 5; ++epoch) {
    trainings.Told(0, SessionOf(1), Epoch(epoch, 2, 2));
  }
  const std::vector<v1::EpochTraining> all = trainings.All();
  ASSERT_EQ(all.size(), EpochTrainings::kMostEpochs);
  EXPECT_EQ(all.front().epoch(), 6u);
}

}  // namespace
}  // namespace paramd
