#include "compute/program/program_model.h"

#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void NoneReady(size_t /*variable*/) {}

v1::Variable MakeVariable(const std::string& name, uint64_t elements) {
  v1::Variable variable;
  variable.set_name(name);
  variable.add_shape(elements);
  return variable;
}

Batch Indices(std::vector<int64_t> indices) {
  InputSpec spec;
  spec.features.push_back(
      {.name = "index", .dtype = DType::kInt64, .dims = {}});
  Batch batch;
  batch.range = {.epoch = 2, .begin = 10, .end = 10 + indices.size()};
  batch.Reset(spec, indices.size());
  const auto values = batch.columns[0].values<int64_t>();
  std::copy(indices.begin(), indices.end(), values.begin());
  return batch;
}

class ProgramModelTest : public ::testing::Test {
 protected:
  ProgramModelTest() {
    options_.variables = {MakeVariable("w", 2)};
    options_.evaluates = true;
  }

  absl::StatusOr<Metrics> Step() {
    ProgramModel model(&options_, &exchange_);
    const std::vector<absl::Span<const float>> weights = {weights_};
    const std::vector<absl::Span<float>> gradients = {
        absl::MakeSpan(gradients_)};
    TrainedModel::StepOptions options;
    options.divisor = 4;
    return model.Step(weights, Indices({7, 3}), options, gradients, NoneReady);
  }

  ProgramModel::Options options_;
  ProgramExchange exchange_;
  std::vector<float> weights_ = {1, 2};
  std::vector<float> gradients_ = {0, 0};
};

TEST_F(ProgramModelTest, TheProgramComputesWhatTheWorkerAsks) {
  absl::StatusOr<Metrics> result;
  std::thread worker([&] { result = Step(); });
  const auto next = exchange_.Next(absl::Minutes(1));
  ASSERT_TRUE(next.ok()) << next.status();
  const ProgramWork& work = **next;
  EXPECT_EQ(work.kind, ProgramWork::Kind::kStep);
  EXPECT_EQ(work.range.epoch, 2u);
  EXPECT_EQ(work.divisor, 4);
  EXPECT_THAT(work.indices, ElementsAre(7, 3));
  EXPECT_THAT(work.weights[0], ElementsAre(1, 2));
  work.gradients[0][1] = 5;
  (*work.ready)(0);
  EXPECT_EQ(exchange_.held(), &work);
  Metrics metrics;
  metrics.loss_sum = 3;
  metrics.examples = 2;
  metrics.correct = 1;
  metrics.labels = 2;
  exchange_.Finish(metrics);
  worker.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->loss_sum, 3);
  ASSERT_EQ(result->Values().size(), 2u);
  EXPECT_EQ(result->Values()[1].name, "accuracy");
  EXPECT_EQ(result->Values()[1].value, 0.5);
  EXPECT_THAT(gradients_, ElementsAre(0, 5));
  EXPECT_EQ(exchange_.held(), nullptr);
}

TEST_F(ProgramModelTest, WhatFailsInTheProgramFailsTheStep) {
  absl::StatusOr<Metrics> result;
  std::thread worker([&] { result = Step(); });
  ASSERT_TRUE(exchange_.Next(absl::Minutes(1)).ok());
  exchange_.Finish(absl::InternalError("no"));
  worker.join();
  EXPECT_EQ(result.status(), absl::InternalError("no"));
}

TEST_F(ProgramModelTest, NobodysWorkIsWaitedForNoLongerThanSaid) {
  EXPECT_EQ(exchange_.Next(absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ProgramModelTest, OnceItIsClosedNothingIsHandedOut) {
  std::thread worker(
      [&] { EXPECT_EQ(Step().status().code(), absl::StatusCode::kCancelled); });
  exchange_.Close();
  worker.join();
  EXPECT_EQ(*exchange_.Next(absl::Minutes(1)), nullptr);
}

TEST_F(ProgramModelTest, WhatTheProgramHoldsStaysWhileItIsClosed) {
  absl::StatusOr<Metrics> result;
  std::thread worker([&] { result = Step(); });
  const ProgramWork* const work = *exchange_.Next(absl::Minutes(1));
  exchange_.Close();
  work->gradients[0][0] = 1;  // AddressSanitizer would see it gone.
  exchange_.Finish(Metrics());
  worker.join();
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->sums.empty()) << "no labels were counted";
}

TEST_F(ProgramModelTest, WhatIsAnnouncedIsTakenInOrder) {
  ProgramModel model(&options_, &exchange_);
  EXPECT_THAT(exchange_.TakeAnnounced(), ::testing::IsEmpty());
  model.Announce(Indices({7, 3}));
  model.Announce(Indices({1}));
  EXPECT_THAT(exchange_.TakeAnnounced(), ElementsAre(7, 3));
  for (int64_t i = 0; i < 64; ++i) model.Announce(Indices({i}));
  EXPECT_THAT(exchange_.TakeAnnounced(), ElementsAre(0));  // {1} is forgotten.
}

TEST_F(ProgramModelTest, WhatOnlyAProgramsModelHasIsAFaceOfItsOwn) {
  ProgramModel program(&options_, &exchange_);
  TrainedModel& model = program;
  EXPECT_EQ(model.replicated(), nullptr);
  ASSERT_NE(model.brought(), nullptr);
  EXPECT_EQ(model.brought()->initial_values(), nullptr);
  options_.initial_values = {{1, 2}};
  EXPECT_EQ(model.brought()->initial_values(), &options_.initial_values);
  model.brought()->Announce(Indices({5}));
  EXPECT_THAT(exchange_.TakeAnnounced(), ElementsAre(5));
}

TEST_F(ProgramModelTest, VariablesThatMakeNoSenseAreNamed) {
  EXPECT_EQ(ProgramModel::Check(options_), absl::OkStatus());
  options_.initial_values = {{1, 2, 3}};
  EXPECT_EQ(ProgramModel::Check(options_).message(),
            "variable 'w' has 2 elements; 3 initial values were given");
  options_.initial_values.clear();
  options_.variables.push_back(MakeVariable("w", 1));
  EXPECT_THAT(ProgramModel::Check(options_).message(),
              HasSubstr("two variables have the name 'w'"));
  options_.variables[1] = MakeVariable("v", 0);
  EXPECT_EQ(ProgramModel::Check(options_).message(),
            "variable 'v' has no elements");
  options_.variables.clear();
  EXPECT_EQ(ProgramModel::Check(options_).message(),
            "the model has no variables");
}

TEST_F(ProgramModelTest, ABatchWithoutIndicesIsRefused) {
  ProgramModel model(&options_, &exchange_);
  EXPECT_THAT(model.Evaluate({}, Batch()).status().message(),
              HasSubstr("\"indices\""));
}

}  // namespace
}  // namespace paramd
