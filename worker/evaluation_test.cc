#include "worker/evaluation.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/testing/fake_source.h"

namespace paramd {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr uint64_t kExamples = 4321;
const std::vector<v1::Variable> kNoVariables;

// Predicts an example's number. The losses of batches have very different
// sizes, so a sum tells in which order they were added.
class NumberModel : public TrainedModel {
 public:
  const std::vector<v1::Variable>& variables() const override {
    return kNoVariables;
  }
  std::unique_ptr<TrainedModel> Clone() const override {
    return std::make_unique<NumberModel>();
  }
  absl::StatusOr<Metrics> Step(WeightSpans, const Batch&, const StepOptions&,
                               GradientSpans, Ready) override {
    return absl::UnimplementedError("nobody trains it");
  }
  absl::StatusOr<Metrics> Evaluate(WeightSpans, const Batch& batch) override {
    Metrics metrics;
    metrics.examples = batch.size();
    metrics.sums.push_back({.kind = Metrics::Kind::kAuc});
    metrics.sums.push_back({.kind = Metrics::Kind::kGroupAuc});
    for (const float number : batch.columns[0].values<float>()) {
      metrics.loss_sum += number < 1000 ? 1e16 : 1 / (1 + number);
      metrics.scores.push_back(
          {.score = number, .positive = static_cast<int>(number) % 3 == 0});
      metrics.groups.push_back(static_cast<int>(number) * 7 % 10);
    }
    return metrics;
  }
  absl::Status Predict(WeightSpans, const Batch& batch, Batch* out) override {
    out->Reset({{FeatureSpec{"prediction", DType::kFloat32, {}}}},
               batch.size());
    const auto numbers = batch.columns[0].values<float>();
    std::copy(numbers.begin(), numbers.end(),
              out->columns[0].values<float>().begin());
    return absl::OkStatus();
  }
  ModelCost cost() const override { return {}; }
};

std::unique_ptr<Pipeline> TestData(std::unique_ptr<FakeSource> source,
                                   bool skips = false) {
  v1::InputConfig config;
  if (skips) config.set_on_error(v1::InputConfig::ON_ERROR_SKIP);
  auto made = Pipeline::Create(std::move(source), config, {.training = false});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

TEST(EvaluationTest, OfALargeModelFewerExamplesAreComputedAtATime) {
  const auto batch_of = [](uint64_t activation_bytes) {
    ModelCost cost;
    cost.activation_bytes = activation_bytes;
    return EvaluationBatch(cost);
  };
  EXPECT_EQ(batch_of(0), 500u);
  EXPECT_EQ(batch_of(100'000), 500u);
  EXPECT_EQ(batch_of(1 << 20), 256u);
  EXPECT_EQ(batch_of(1 << 30), 1u);
}

TEST(EvaluationTest, ABudgetForActivationsChangesNoBatch) {
  ModelCost cost;
  cost.activation_bytes = 1 << 18;
  cost.saved_bytes = (1 << 20) - (1 << 18);
  EXPECT_EQ(EvaluationBatch(cost), 256u);
}

TEST(EvaluationTest, TheNumbersAreTheSameWhateverTheNumberOfThreads) {
  const auto data = TestData(std::make_unique<FakeSource>(kExamples));
  NumberModel model;
  const auto alone = EvaluateOn(*data, {}, &model);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->examples, kExamples);
  for (const int threads : {2, 3, 8, 100}) {
    const auto shared = EvaluateOn(*data, {}, &model, {.threads = threads});
    ASSERT_TRUE(shared.ok()) << shared.status();
    EXPECT_EQ(shared->examples, alone->examples);
    EXPECT_EQ(shared->loss_sum, alone->loss_sum) << threads;
    ASSERT_EQ(shared->scores.size(), alone->scores.size());
    EXPECT_EQ(shared->Values()[1].value, alone->Values()[1].value);
    EXPECT_EQ(shared->Values()[2].value, alone->Values()[2].value);
  }
}

TEST(EvaluationTest, PredictionsComeInTheOrderOfTheInput) {
  const auto data = TestData(std::make_unique<FakeSource>(kExamples));
  NumberModel model;
  std::vector<float> expected(kExamples);
  std::iota(expected.begin(), expected.end(), 0.0f);
  for (const int threads : {1, 4}) {
    std::vector<float> found;
    const absl::Status status = PredictOn(
        *data, {}, &model, {.threads = threads}, [&](const Batch& batch) {
          const auto numbers = batch.columns[0].values<float>();
          found.insert(found.end(), numbers.begin(), numbers.end());
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(found, ElementsAreArray(expected));
  }
}

TEST(EvaluationTest, PartsAreARunOfBatchesEachAndAllOfThem) {
  for (const uint64_t batches : {1u, 2u, 9u, 1000u}) {
    for (const uint32_t count : {1u, 2u, 3u, 8u, 17u}) {
      uint64_t next = 0;
      for (uint32_t index = 0; index < count; ++index) {
        const auto [begin, end] = TestPart{index, count}.Of(batches);
        EXPECT_EQ(begin, next);
        EXPECT_LE(end - begin, (batches + count - 1) / count);
        EXPECT_TRUE(index > 0 || begin < end);
        next = end;
      }
      EXPECT_EQ(next, batches);
    }
  }
}

TEST(EvaluationTest, ThePartsAddedInOrderAreTheWhole) {
  const auto data = TestData(std::make_unique<FakeSource>(kExamples));
  NumberModel model;
  const auto whole = EvaluateOn(*data, {}, &model);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const uint32_t count : {2u, 4u, 20u}) {
    Metrics sum;
    std::vector<float> predicted;
    for (uint32_t index = 0; index < count; ++index) {
      const EvaluationOptions options = {.threads = 2, .part = {index, count}};
      EXPECT_TRUE(
          EvaluateEach(*data, {}, &model, options, [&](const Metrics& batch) {
            sum += batch;
          }).ok());
      int calls = 0;
      EXPECT_TRUE(
          PredictOn(*data, {}, &model, options, [&](const Batch& batch) {
            ++calls;
            const auto numbers = batch.columns[0].values<float>();
            predicted.insert(predicted.end(), numbers.begin(), numbers.end());
            return absl::OkStatus();
          }).ok());
      EXPECT_GE(calls, 1) << "also of none, so that its shape is known";
    }
    EXPECT_EQ(sum.examples, kExamples);
    EXPECT_EQ(sum.loss_sum, whole->loss_sum) << count;
    for (size_t i = 0; i < whole->Values().size(); ++i) {
      EXPECT_EQ(sum.Values()[i].value, whole->Values()[i].value);
    }
    std::vector<float> numbers(kExamples);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    EXPECT_THAT(predicted, ElementsAreArray(numbers));
  }
}

// Reads row n % 7 of its one sparse variable for example n.
class RowModel : public NumberModel {
 public:
  explicit RowModel(bool keyed = false) {
    variables_.resize(2);
    variables_[1].set_sparse(true);
    variables_[1].set_keyed(keyed);
  }
  const std::vector<v1::Variable>& variables() const override {
    return variables_;
  }
  absl::Status FindRows(const Batch& batch,
                        absl::Span<std::vector<uint64_t>> rows) const override {
    for (const float number : batch.columns[0].values<float>()) {
      rows[0].push_back(static_cast<uint64_t>(number) % 7);
    }
    return absl::OkStatus();
  }

 private:
  std::vector<v1::Variable> variables_;
};

TEST(EvaluationTest, TheRowsOfTheWholeTestSetComeOnceEach) {
  const auto data = TestData(std::make_unique<FakeSource>(kExamples));
  const auto rows = RowsReadBy(*data, RowModel());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_THAT((*rows)[0], ElementsAreArray({0, 1, 2, 3, 4, 5, 6}));
  const auto few = TestData(std::make_unique<FakeSource>(503));
  EXPECT_THAT((*RowsReadBy(*few, RowModel(), {.index = 1, .count = 2}))[0],
              ElementsAreArray({3, 4, 5}));
  EXPECT_TRUE(
      (*RowsReadBy(*few, RowModel(), {.index = 2, .count = 3}))[0].empty());
  EXPECT_TRUE(KeysReadBy(*data, RowModel())->empty());
  EXPECT_EQ(*KeysReadBy(*data, RowModel(/*keyed=*/true)), *rows);
  auto source = std::make_unique<FakeSource>(kExamples);
  source->set_unreadable(1600);
  EXPECT_TRUE(absl::IsDataLoss(
      RowsReadBy(*TestData(std::move(source)), RowModel()).status()));
}

TEST(EvaluationTest, AnExampleThatCannotBeReadEndsItBehindWhatComesBefore) {
  auto source = std::make_unique<FakeSource>(kExamples);
  source->set_unreadable(1600);
  const auto data = TestData(std::move(source));
  NumberModel model;
  for (const int threads : {1, 4}) {
    uint64_t used = 0;
    const absl::Status status = PredictOn(
        *data, {}, &model, {.threads = threads}, [&](const Batch& batch) {
          used += batch.size();
          return absl::OkStatus();
        });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(used, 1500u);
    EXPECT_TRUE(absl::IsDataLoss(
        EvaluateOn(*data, {}, &model, {.threads = threads}).status()));
  }
}

TEST(EvaluationTest, WhatCannotBeUsedEndsIt) {
  const auto data = TestData(std::make_unique<FakeSource>(kExamples));
  NumberModel model;
  int calls = 0;
  const absl::Status status =
      PredictOn(*data, {}, &model, {.threads = 3}, [&](const Batch& /*batch*/) {
        return ++calls == 2 ? absl::UnavailableError("the disk is full")
                            : absl::OkStatus();
      });
  EXPECT_EQ(status, absl::UnavailableError("the disk is full"));
  EXPECT_EQ(calls, 2);
}

TEST(EvaluationTest, WhereNothingIsLeftItIsSaid) {
  auto source = std::make_unique<FakeSource>(1);
  source->set_unreadable(0);
  const auto data = TestData(std::move(source), /*skips=*/true);
  NumberModel model;
  const absl::Status evaluated = EvaluateOn(*data, {}, &model).status();
  EXPECT_TRUE(absl::IsInvalidArgument(evaluated)) << evaluated;
  EXPECT_THAT(evaluated.message(), HasSubstr("no example to evaluate on"));
  EXPECT_EQ(PredictOn(*data, {}, &model, {.threads = 2},
                      [](const Batch& /*batch*/) {
                        return absl::InternalError("there is nothing to use");
                      }),
            evaluated);
}

}  // namespace
}  // namespace paramd
