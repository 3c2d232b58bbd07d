#include "program/program_worker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr int kExamples = 64;

// y = 3x - 1 at x = i / kExamples, by w x + b.
double Input(int64_t index) { return static_cast<double>(index) / kExamples; }

ProgramWorker::Options Line() {
  ProgramWorker::Options options;
  options.job_text = absl::StrCat(
      R"({"name": "line", "model": {"custom": true}, "epochs": 60,
          "batch_per_replica": 8, "log_level": "error", "run_dir": ")",
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name(),
      R"(", "optimizer": {"sgd": {}, "learning_rate": 0.2}})");
  options.training_examples = kExamples;
  for (const char* name : {"w", "b"}) {
    v1::Variable& variable = options.model.variables.emplace_back();
    variable.set_name(name);
    variable.set_dtype(v1::FLOAT32);
    variable.add_shape(1);
  }
  options.model.initial_values = {{2.0f}, {0.5f}};
  return options;
}

Metrics Compute(const ProgramWork& work) {
  Metrics metrics;
  const float w = work.weights[0][0], b = work.weights[1][0];
  double dw = 0, db = 0;
  for (const int64_t index : work.indices) {
    const double x = Input(index);
    const double error = w * x + b - (3 * x - 1);
    metrics.loss_sum += error * error;
    dw += 2 * error * x;
    db += 2 * error;
    ++metrics.examples;
  }
  if (work.kind == ProgramWork::Kind::kStep) {
    work.gradients[0][0] = static_cast<float>(dw / work.divisor);
    work.gradients[1][0] = static_cast<float>(db / work.divisor);
  }
  return metrics;
}

// Two variables of 2 MB each, of which nothing depends.
constexpr uint64_t kWideElements = 500'000;

ProgramWorker::Options Wide() {
  ProgramWorker::Options options = Line();
  options.settings = {{"epochs", "1"}};
  for (v1::Variable& variable : options.model.variables) {
    variable.set_shape(0, kWideElements);
  }
  options.model.initial_values.clear();
  return options;
}

void FillGradients(const ProgramWork& work, float value) {
  for (const absl::Span<float> gradient : work.gradients) {
    std::fill(gradient.begin(), gradient.end(), value);
  }
}

Metrics MetricsOf(const ProgramWork& work) {
  Metrics metrics;
  metrics.examples = work.indices.size();
  return metrics;
}

absl::StatusOr<const ProgramWork*> NextOf(ProgramWorker* worker) {
  return worker->Next(absl::Minutes(5));
}

TEST(ProgramWorkerTest, AProgramTrainsItsOwnModel) {
  auto worker = ProgramWorker::Start(Line());
  ASSERT_TRUE(worker.ok()) << worker.status();
  std::vector<int> seen(kExamples);
  float first = 0;
  double last_loss = 0;
  for (int steps = 0;; ++steps) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    if (steps == 0) first = (*work)->weights[0][0];
    if ((*work)->range.epoch == 1) {
      for (const int64_t index : (*work)->indices) ++seen[index];
    }
    const Metrics metrics = Compute(**work);
    last_loss = metrics.mean_loss();
    ASSERT_TRUE((*worker)->Finish(metrics).ok());
  }
  EXPECT_EQ(first, 2.0f);  // The program's own.
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_LT(last_loss, 1e-3);
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
}

// Trains until the job has finished, or so many steps. Returns the epochs of
// its steps.
std::vector<uint32_t> TrainLine(ProgramWorker* worker, size_t steps = 1000) {
  std::vector<uint32_t> epochs;
  while (epochs.size() < steps) {
    const auto work = NextOf(worker);
    if (!work.ok() || *work == nullptr) {
      EXPECT_TRUE(work.ok()) << work.status();
      break;
    }
    epochs.push_back((*work)->range.epoch);
    EXPECT_TRUE(worker->Finish(Compute(**work)).ok());
  }
  return epochs;
}

ProgramWorker::Options ShortLine(const char* epochs) {
  ProgramWorker::Options options = Line();
  options.settings = {{"epochs", epochs}};
  return options;
}

TEST(ProgramWorkerTest, ANewRunHasNothingSaved) {
  EXPECT_EQ(ProgramWorker::FindSaved(Line()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ProgramWorkerTest, BehindTheEndItHasTheWeightsOfTheLastCheckpoint) {
  auto worker = ProgramWorker::Start(ShortLine("2"));
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(TrainLine(worker->get()).size(), 16);
  const auto saved = (*worker)->ReadSaved();
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(saved->run.is_over);
  EXPECT_EQ(saved->run.epoch, 3);
  EXPECT_NE(saved->weights[0][0], 2.0f);
  ASSERT_TRUE((*worker)->Close().ok());
  const auto found = ProgramWorker::FindSaved(ShortLine("2"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->run.is_over);
  EXPECT_EQ(found->weights, saved->weights);
}

TEST(ProgramWorkerTest, AFinishedJobNeedsNoDataToSayThatItHasFinished) {
  auto first = ProgramWorker::Start(ShortLine("2"));
  ASSERT_TRUE(first.ok()) << first.status();
  TrainLine(first->get());
  const auto before = (*first)->ReadSaved();
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_TRUE((*first)->Close().ok());
  ProgramWorker::Options options = ShortLine("2");
  options.training_examples = 0;
  options.model.initial_values = {{9.0f}, {9.0f}};
  auto again = ProgramWorker::Start(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(TrainLine(again->get()).empty());
  const auto after = (*again)->ReadSaved();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->weights, before->weights);
}

TEST(ProgramWorkerTest, MoreEpochsBeginBehindTheLastOneWithItsWeights) {
  auto first = ProgramWorker::Start(ShortLine("2"));
  ASSERT_TRUE(first.ok()) << first.status();
  TrainLine(first->get());
  ASSERT_TRUE((*first)->Close().ok());
  const ProgramWorker::Options options = ShortLine("3");
  const auto saved = ProgramWorker::FindSaved(options);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_FALSE(saved->run.is_over);
  EXPECT_EQ(saved->run.epoch, 3);
  auto more = ProgramWorker::Start(options);
  ASSERT_TRUE(more.ok()) << more.status();
  const auto work = NextOf(more->get());
  ASSERT_TRUE(work.ok() && *work != nullptr);
  EXPECT_EQ((*work)->range.epoch, 3);
  EXPECT_EQ((*work)->weights[0][0], saved->weights[0][0]);
}

TEST(ProgramWorkerTest, AJobThatWasLeftGoesOnInItsEpoch) {
  auto first = ProgramWorker::Start(ShortLine("3"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(TrainLine(first->get(), /*steps=*/11).back(), 2);
  (*first)->Close().IgnoreError();
  const auto saved = ProgramWorker::FindSaved(ShortLine("3"));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_FALSE(saved->run.is_over);
  EXPECT_EQ(saved->run.epoch, 2);
}

TEST(ProgramWorkerTest, ARunOfOtherVariablesHasNothingForThese) {
  auto first = ProgramWorker::Start(ShortLine("1"));
  ASSERT_TRUE(first.ok()) << first.status();
  TrainLine(first->get());
  ASSERT_TRUE((*first)->Close().ok());
  ProgramWorker::Options other = ShortLine("1");
  other.model.variables[0].set_name("v");
  EXPECT_THAT(std::string(ProgramWorker::FindSaved(other).status().message()),
              HasSubstr("'v'"));
}

// A table of 16 rows of 2, of which example i reads row i modulo 16.
ProgramWorker::Options WithTable() {
  ProgramWorker::Options options = Line();
  options.settings = {{"epochs", "2"}, {"optimizer.learning_rate", "1"}};
  v1::Variable& table = options.model.variables.emplace_back();
  table.set_name("table");
  table.set_dtype(v1::FLOAT32);
  table.add_shape(16);
  table.add_shape(2);
  table.set_sparse(true);
  std::vector<float> initial(32);
  for (size_t i = 0; i < initial.size(); ++i)
    initial[i] = static_cast<float>(i);
  options.model.initial_values.push_back(initial);
  return options;
}

TEST(ProgramWorkerTest, OnlyTheRowsThatABatchReadsTravel) {
  ProgramWorker::Options options = WithTable();
  options.model.evaluates = true;
  options.test_examples = 3;
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  // How often each row was moved by 1.
  std::vector<int> moved(16);
  int steps = 0, evaluations = 0;
  for (;;) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    std::vector<int64_t> reads;
    for (const int64_t index : (*work)->indices) reads.push_back(index % 16);
    if (!(*work)->found.empty()) {
      EXPECT_THAT(
          std::string((*worker)->FoundRows(2, {16}).message()),
          HasSubstr("row 16 of variable 'table' is read, which has 16"));
      EXPECT_THAT(std::string((*worker)->FoundRows(0, {0}).message()),
                  HasSubstr("is not sparse"));
      ASSERT_TRUE((*worker)->FoundRows(2, reads).ok());
      ASSERT_TRUE((*worker)->Finish(Metrics()).ok());
      continue;
    }
    EXPECT_TRUE((*worker)->RowsOf(0).empty());
    const auto rows = (*worker)->RowsOf(2);
    const absl::Span<const float> values = (*work)->weights[2];
    ASSERT_EQ(values.size(), 2 * rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const float is = values[2 * i];
      const auto first = static_cast<float>(2 * rows[i]);
      const float newest = first - static_cast<float>(moved[rows[i]]);
      if ((*work)->kind == ProgramWork::Kind::kStep) {
        EXPECT_EQ(is, newest);
      } else {  // Its weights were pulled beside the steps.
        EXPECT_GE(is, newest);
        EXPECT_LE(is, first);
      }
    }
    for (const int64_t row : reads) {
      EXPECT_EQ(std::count(rows.begin(), rows.end(), row), 1);
    }
    if ((*work)->kind == ProgramWork::Kind::kStep) {
      ++steps;
      EXPECT_EQ((*work)->gradients[2].size(), values.size());
      FillGradients(**work, 1);
      for (const uint64_t row : rows) ++moved[row];
    } else {
      ++evaluations;
      EXPECT_THAT(rows, ::testing::ElementsAre(0, 1, 2));
    }
    ASSERT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
  }
  EXPECT_EQ(steps, 2 * kExamples / 8);
  EXPECT_GE(evaluations, 1);
  EXPECT_FALSE((*worker)->FoundRows(2, {0}).ok());  // Nobody asks.
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
}

TEST(ProgramWorkerTest, WithoutTestDataNobodyAsksForTheirRows) {
  auto worker = ProgramWorker::Start(WithTable());
  ASSERT_TRUE(worker.ok()) << worker.status();
  for (;;) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    EXPECT_NE((*work)->kind, ProgramWork::Kind::kFindTestRows);
    EXPECT_NE((*work)->kind, ProgramWork::Kind::kEvaluate);
    if ((*work)->kind == ProgramWork::Kind::kFindRows) {
      ASSERT_TRUE((*worker)->FoundRows(2, {0, 7}).ok());
    } else {
      FillGradients(**work, 0);
    }
    ASSERT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
  }
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
}

TEST(ProgramWorkerTest, ATableOfRowsThatAreTooWideIsRefused) {
  ProgramWorker::Options options = WithTable();
  options.model.variables[2].set_shape(1, 262145);
  EXPECT_THAT(std::string(ProgramWorker::Start(options).status().message()),
              HasSubstr("variable 'table': "));
}

TEST(ProgramWorkerTest, WhatIsEvaluatedIsTheTestData) {
  ProgramWorker::Options options = Line();
  options.model.evaluates = true;
  options.test_examples = 10;
  options.settings = {{"epochs", "1"}};
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  uint64_t evaluated = 0;
  for (;;) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    if ((*work)->kind == ProgramWork::Kind::kEvaluate) {
      evaluated += (*work)->indices.size();
    }
    ASSERT_TRUE((*worker)->Finish(Compute(**work)).ok());
  }
  EXPECT_EQ(evaluated % 10, 0u);
  EXPECT_GE(evaluated, 10u);
}

TEST(ProgramWorkerTest, ANumberThatIsNotFiniteIsRefusedAndMayBeMended) {
  auto worker = ProgramWorker::Start(Line());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  Metrics metrics = Compute(**work);
  (*work)->gradients[1][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ((*worker)->Finish(metrics).message(),
            "the gradient of 'b' is not finite; nothing of this batch was "
            "pushed");
  (*work)->gradients[1][0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE((*worker)->Finish(metrics).ok());
  (*work)->gradients[1][0] = std::numeric_limits<float>::max();
  metrics.loss_sum = std::nan("");
  EXPECT_THAT((*worker)->Finish(metrics).message(), HasSubstr("loss is nan"));
  EXPECT_EQ((*worker)->Next(absl::ZeroDuration()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE((*worker)->Finish(Compute(**work)).ok());
  EXPECT_EQ((*worker)->Finish(metrics).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ProgramWorkerTest, AProgramMayLeaveInTheMiddleOfABatch) {
  auto worker = ProgramWorker::Start(Line());
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(NextOf(worker->get()).ok());
  EXPECT_EQ((*worker)->Close().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*worker)->Close().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*worker)->Next(absl::ZeroDuration()).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(ProgramWorkerTest, AGradientThatIsNotFiniteNeverLeaves) {
  auto worker = ProgramWorker::Start(Wide());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  FillGradients(**work, 0);
  (*work)->gradients[1].back() = std::nanf("");
  EXPECT_EQ((*worker)->GradientReady(1).message(),
            "the gradient of 'b' is not finite; nothing of this batch was "
            "pushed");
  // Nothing of it had left: it is mended.
  (*work)->gradients[1].back() = 0;
  EXPECT_TRUE((*worker)->Recompute().ok());
  EXPECT_TRUE((*worker)->GradientReady(1).ok());
  EXPECT_TRUE((*worker)->GradientReady(0).ok());
  EXPECT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
  EXPECT_EQ((*worker)->Recompute().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ProgramWorkerTest, WhereverAGradientIsNotFiniteItIsSeen) {
  constexpr uint64_t kElements = 37;  // Two lanes' widths, and some.
  ProgramWorker::Options options = Wide();
  for (v1::Variable& variable : options.model.variables) {
    variable.set_shape(0, kElements);
  }
  auto worker = ProgramWorker::Start(std::move(options));
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  FillGradients(**work, std::numeric_limits<float>::max());
  for (uint64_t i = 0; i < kElements; ++i) {
    float& element = (*work)->gradients[1][i];
    const float finite = element;
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      element = bad;
      EXPECT_THAT((*worker)->GradientReady(1).message(),
                  HasSubstr("'b' is not finite"))
          << i;
    }
    element = finite;
  }
  EXPECT_TRUE((*worker)->GradientReady(1).ok());
}

TEST(ProgramWorkerTest, Promise1_OfABatchThatHasBegunToLeaveNothingIsMended) {
  std::vector<int64_t> lost;
  {
    auto worker = ProgramWorker::Start(Wide());
    ASSERT_TRUE(worker.ok()) << worker.status();
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    lost.assign((*work)->indices.begin(), (*work)->indices.end());
    FillGradients(**work, 0);
    ASSERT_TRUE((*worker)->GradientReady(1).ok());
    (*work)->gradients[0][7] = std::nanf("");
    const absl::Status refused = (*worker)->GradientReady(0);
    EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(
        refused.message(),
        "the gradient of 'w' is not finite; a part of this batch was "
        "pushed already, so this worker has to leave: the batch is handed "
        "out again");
    (*work)->gradients[0][7] = 0;
    EXPECT_EQ((*worker)->GradientReady(0), refused);
    EXPECT_EQ((*worker)->Recompute(), refused);
    EXPECT_EQ((*worker)->Finish(MetricsOf(**work)), refused);
    EXPECT_EQ((*worker)->Close().code(), absl::StatusCode::kCancelled);
  }
  // The chief has left in good order: the next one goes on where it was.
  auto worker = ProgramWorker::Start(Wide());
  ASSERT_TRUE(worker.ok()) << worker.status();
  std::vector<int> seen(kExamples);
  for (;;) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    for (const int64_t index : (*work)->indices) ++seen[index];
    FillGradients(**work, 0);
    ASSERT_TRUE((*worker)->GradientReady(1).ok());
    ASSERT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
  }
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_EQ(seen[lost[0]], 1);
}

TEST(ProgramWorkerTest, ABatchThatHasBegunToLeaveIsNotComputedAnew) {
  auto worker = ProgramWorker::Start(Wide());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  FillGradients(**work, 0);
  ASSERT_TRUE((*worker)->GradientReady(1).ok());
  EXPECT_THAT(
      (*worker)->GradientReady(1).message(),
      HasSubstr("to be computed again; a part of this batch was pushed"));
}

TEST(ProgramWorkerTest, WeightsLieInMemoryThatWasLentByTurns) {
  std::array<float, 2> w, b;
  ProgramWorker::Options options = Line();
  options.model.lent_weights = {{&w[0], &w[1]}, {&b[0], &b[1]}};
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const float* before = nullptr;
  double last_loss = 0;
  for (;;) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    const float* const now = (*work)->weights[0].data();
    EXPECT_THAT(now, ::testing::AnyOf(&w[0], &w[1]));
    EXPECT_NE(now, before);
    before = now;
    const Metrics metrics = Compute(**work);
    last_loss = metrics.mean_loss();
    w[now - w.data()] = -1000;  // Is found nowhere.
    ASSERT_TRUE((*worker)->Finish(metrics).ok());
  }
  EXPECT_LT(last_loss, 1e-3);
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
}

// As Compute, with gradients in memory that is spoilt once it has come back.
// What is lent, here and below, outlives the worker.
void TrainOnLentGradients(ProgramWorker::Options options) {
  std::map<uint64_t, std::vector<float>> lent;
  auto worker = ProgramWorker::Start(std::move(options));
  ASSERT_TRUE(worker.ok()) << worker.status();
  double last_loss = 0;
  uint64_t number = 0;
  size_t most = 0;
  const auto take_returned = [&] {
    for (const uint64_t returned : (*worker)->TakeReturned()) {
      ASSERT_EQ(lent.count(returned), 1u);
      lent[returned].assign(2, NAN);
      lent.erase(returned);
    }
  };
  for (;;) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    const Metrics metrics = Compute(**work);
    last_loss = metrics.mean_loss();
    take_returned();
    std::vector<float>& gradients = lent[++number];
    for (size_t v = 0; v < 2; ++v) {
      gradients.push_back((*work)->gradients[v][0]);
      (*work)->gradients[v][0] = -7;
    }
    for (size_t v = 0; v < 2; ++v) {
      ASSERT_TRUE((*worker)->LendGradient(v, &gradients[v], number).ok());
    }
    most = std::max(most, lent.size());
    ASSERT_TRUE((*worker)->Finish(metrics).ok());
  }
  EXPECT_LT(last_loss, 1e-2);
  EXPECT_LE(most, 4u);
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
  take_returned();
  EXPECT_TRUE(lent.empty());
}

TEST(ProgramWorkerTest, GradientsThatAreLentLeaveFromWhereTheyAreAndComeBack) {
  TrainOnLentGradients(Line());
}

TEST(ProgramWorkerTest, GradientsThatAreAddedUpAreCopied) {
  ProgramWorker::Options options = Line();
  options.settings = {{"accumulate", "2"}};
  TrainOnLentGradients(options);
}

TEST(ProgramWorkerTest, ALentGradientIsRefusedAndComesBackAsOneThatIsWritten) {
  float gradient = 0;
  float mended = 1;
  auto worker = ProgramWorker::Start(Line());
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ((*worker)->LendGradient(0, &gradient, 1).code(),
            absl::StatusCode::kFailedPrecondition);
  const auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  const Metrics metrics = Compute(**work);
  gradient = std::nanf("");
  ASSERT_TRUE((*worker)->LendGradient(1, &gradient, 1).ok());
  EXPECT_THAT((*worker)->Finish(metrics).message(),
              HasSubstr("gradient of 'b' is not finite; nothing"));
  EXPECT_THAT((*worker)->TakeReturned(), ::testing::ElementsAre(1));
  ASSERT_TRUE((*worker)->LendGradient(1, &gradient, 2).ok());
  EXPECT_FALSE((*worker)->GradientReady(1).ok());
  ASSERT_TRUE((*worker)->LendGradient(1, &gradient, 3).ok());
  ASSERT_TRUE((*worker)->LendGradient(1, &mended, 4).ok());
  EXPECT_THAT((*worker)->TakeReturned(), ::testing::ElementsAre(2, 3));
  ASSERT_TRUE((*worker)->Recompute().ok());
  EXPECT_THAT((*worker)->TakeReturned(), ::testing::ElementsAre(4));
  ASSERT_TRUE((*worker)->LendGradient(1, &mended, 5).ok());
  EXPECT_TRUE((*worker)->GradientReady(1).ok());
  EXPECT_TRUE((*worker)->Finish(metrics).ok());
  EXPECT_EQ((*worker)->Close().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT((*worker)->TakeReturned(), ::testing::ElementsAre(5));
}

TEST(ProgramWorkerTest, LentGradientsLeaveByLayersToo) {
  ProgramWorker::Options options = Wide();
  options.settings.push_back({"optimizer.learning_rate", "1"});
  std::map<uint64_t, std::vector<float>> lent;
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  uint64_t number = 0;
  for (float steps = 0;; ++steps) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    EXPECT_EQ((*work)->weights[1].back() - (*work)->weights[1][0], 0);
    EXPECT_EQ((*work)->weights[1][7], -steps);
    for (const uint64_t returned : (*worker)->TakeReturned()) {
      lent.erase(returned);
    }
    FillGradients(**work, NAN);
    for (const size_t v : {1, 0}) {
      std::vector<float>& gradient = lent[++number];
      gradient.assign(kWideElements, 1);
      ASSERT_TRUE((*worker)->LendGradient(v, gradient.data(), number).ok());
      ASSERT_TRUE((*worker)->GradientReady(v).ok());
    }
    ASSERT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
  }
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
}

TEST(ProgramWorkerTest, WhatAStepLeavesStaysAsItIs) {
  ProgramWorker::Options options = Line();
  options.settings = {{"epochs", "2"},
                      {"optimizer.sgd.momentum", "0.9"},
                      {"optimizer.weight_decay", "0.1"}};
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ((*worker)->LeaveUntouched(0).code(),
            absl::StatusCode::kFailedPrecondition);
  std::array<float, 2> before = {2.0f, 0.5f};
  size_t left = 2;  // Of the step before.
  for (size_t steps = 0;; ++steps) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    for (size_t v = 0; v < 2 && steps > 0; ++v) {
      EXPECT_EQ((*work)->weights[v][0] == before[v], v == left) << steps;
    }
    before = {(*work)->weights[0][0], (*work)->weights[1][0]};
    left = steps % 2;
    const Metrics metrics = Compute(**work);
    // What is computed anew is a step of all, until it is said again.
    ASSERT_TRUE((*worker)->LeaveUntouched(1 - left).ok());
    ASSERT_TRUE((*worker)->Recompute().ok());
    ASSERT_TRUE((*worker)->LeaveUntouched(left).ok());
    ASSERT_TRUE((*worker)->LeaveUntouched(left).ok());
    ASSERT_TRUE((*worker)->Finish(metrics).ok());
  }
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
}

TEST(ProgramWorkerTest, WhatAStepLeavesIsKnownBeforeGradientsLeave) {
  ProgramWorker::Options options = Wide();
  options.settings.push_back({"optimizer.learning_rate", "1"});
  options.model.variables.push_back(options.model.variables[0]);
  options.model.variables[2].set_name("c");
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  for (float steps = 0; steps < 3; ++steps) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    EXPECT_EQ((*work)->weights[0][7], 0);
    EXPECT_EQ((*work)->weights[1][7], -steps);
    EXPECT_EQ((*work)->weights[2][7], -steps);
    FillGradients(**work, 1);
    ASSERT_TRUE((*worker)->LeaveUntouched(0).ok());
    ASSERT_TRUE((*worker)->GradientReady(2).ok());
    ASSERT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
  }
  ASSERT_TRUE(NextOf(worker->get()).ok());
  ASSERT_TRUE((*worker)->GradientReady(2).ok());
  EXPECT_EQ((*worker)->LeaveUntouched(0).code(), absl::StatusCode::kAborted);
  EXPECT_EQ((*worker)->Close().code(), absl::StatusCode::kCancelled);
}

TEST(ProgramWorkerTest, AStepOfWhichNothingCanBeLeftSaysWhy) {
  for (const char* key :
       {"accumulate", "push_every", "replicas", "optimizer.clip_global_norm"}) {
    ProgramWorker::Options options = Line();
    options.settings = {
        {key, "2"},
        {"strategy", "parameter_server"},
        {"run_dir", absl::StrCat(::testing::TempDir(), "/left_", key)}};
    auto worker = ProgramWorker::Start(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    ASSERT_TRUE(NextOf(worker->get()).ok());
    EXPECT_EQ((*worker)->LeaveUntouched(0).code(),
              absl::StatusCode::kUnimplemented)
        << key;
    EXPECT_EQ((*worker)->Close().code(), absl::StatusCode::kCancelled);
  }
  ProgramWorker::Options options = Line();
  options.model.variables[1].set_untrained(true);
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(NextOf(worker->get()).ok());
  EXPECT_EQ((*worker)->LeaveUntouched(1).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*worker)->Close().code(), absl::StatusCode::kCancelled);
}

TEST(ProgramWorkerTest, WhatIsClippedByTheNormOfAllLeavesWhenAllAreThere) {
  ProgramWorker::Options options = Wide();
  options.settings.push_back({"optimizer.learning_rate", "1"});
  options.settings.push_back({"optimizer.clip_global_norm", "1"});
  const std::vector<float> ones(kWideElements, 1);
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const double each = 1 / std::sqrt(2.0 * kWideElements);
  uint64_t number = 0;
  for (double steps = 0;; ++steps) {
    const auto work = NextOf(worker->get());
    ASSERT_TRUE(work.ok()) << work.status();
    if (*work == nullptr) break;
    EXPECT_NEAR((*work)->weights[1][7], -steps * each, 1e-6);
    EXPECT_NEAR((*work)->weights[0][0], -steps * each, 1e-6);
    FillGradients(**work, NAN);
    for (const size_t v : {1, 0}) {
      ASSERT_TRUE((*worker)->LendGradient(v, ones.data(), ++number).ok());
      ASSERT_TRUE((*worker)->GradientReady(v).ok());
    }
    ASSERT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
  }
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
  EXPECT_EQ(ones, std::vector<float>(kWideElements, 1)) << "the program's own";
}

TEST(ProgramWorkerTest, AGradientThatComesAgainIsTakenUnlessItHasLeft) {
  const std::vector<float> values(kWideElements, 1);
  std::vector<float> bad = values;
  bad[3] = NAN;
  auto worker = ProgramWorker::Start(Wide());
  ASSERT_TRUE(worker.ok()) << worker.status();
  auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  ASSERT_TRUE((*worker)->LendGradient(0, values.data(), 1).ok());
  ASSERT_TRUE((*worker)->GradientReady(0).ok());
  EXPECT_EQ(
      (*worker)->LendGradient(0, values.data(), 2).message(),
      "the gradient of 'w' has left and comes again; a part of this batch "
      "was pushed already, so this worker has to leave: the batch is handed "
      "out again");
  EXPECT_EQ((*worker)->Finish(MetricsOf(**work)).code(),
            absl::StatusCode::kAborted);
  // Of a narrow model nothing has left.
  ProgramWorker::Options options = Line();
  options.settings = {
      {"run_dir", absl::StrCat(::testing::TempDir(), "/narrow")}};
  worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  (*work)->gradients[1][0] = 0;
  ASSERT_TRUE((*worker)->LendGradient(0, values.data(), 3).ok());
  ASSERT_TRUE((*worker)->GradientReady(0).ok());
  ASSERT_TRUE((*worker)->LendGradient(0, &bad[3], 4).ok());
  EXPECT_THAT((*worker)->TakeReturned(), ::testing::ElementsAre(3));
  EXPECT_THAT((*worker)->Finish(MetricsOf(**work)).message(),
              HasSubstr("'w' is not finite; nothing"));
  ASSERT_TRUE((*worker)->LendGradient(0, values.data(), 5).ok());
  EXPECT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
}

TEST(ProgramWorkerTest, ALentGradientIsTakenBackUnlessItHasLeft) {
  const std::vector<float> values(kWideElements, NAN), ones(kWideElements, 1);
  auto worker = ProgramWorker::Start(Wide());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  FillGradients(**work, 1);
  ASSERT_TRUE((*worker)->LendGradient(1, values.data(), 1).ok());
  ASSERT_TRUE((*worker)->LendGradient(1, nullptr, 2).ok());
  EXPECT_THAT((*worker)->TakeReturned(), ::testing::ElementsAre(1, 2));
  EXPECT_TRUE((*worker)->GradientReady(1).ok());  // What is written leaves.
  // Ready, and not left, as the last one.
  ASSERT_TRUE((*worker)->LendGradient(0, ones.data(), 3).ok());
  ASSERT_TRUE((*worker)->GradientReady(0).ok());
  ASSERT_TRUE((*worker)->LendGradient(0, nullptr, 4).ok());
  EXPECT_THAT((*worker)->TakeReturned(), ::testing::ElementsAre(3, 4));
  (*work)->gradients[0][0] = NAN;
  EXPECT_EQ((*worker)->LendGradient(1, nullptr, 5).code(),
            absl::StatusCode::kAborted);
}

TEST(ProgramWorkerTest, ANumberIsOfOneLoanUntilItHasComeBack) {
  const float values[] = {1, 2};
  auto worker = ProgramWorker::Start(Line());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok()) << work.status();
  ASSERT_TRUE((*worker)->LendGradient(0, &values[0], 1).ok());
  ASSERT_TRUE((*worker)->LendGradient(1, &values[1], 2).ok());
  EXPECT_THAT((*worker)->LendGradient(1, &values[1], 1).message(),
              HasSubstr("were lent under number 1, and then under another"));
  EXPECT_TRUE((*worker)->Finish(MetricsOf(**work)).ok());
}

TEST(ProgramWorkerTest, WhatCannotBeginSaysWhy) {
  ProgramWorker::Options options = Line();
  options.settings = {{"epochs", "none"}};
  EXPECT_THAT(ProgramWorker::Start(options).status().message(),
              HasSubstr("epochs: wants a whole number"));
  options = Line();
  options.training_examples = 0;
  EXPECT_THAT(ProgramWorker::Start(options).status().message(),
              HasSubstr("no training examples"));
  options = Line();
  options.model.initial_values = {{1}, {2, 3}};
  EXPECT_THAT(ProgramWorker::Start(options).status().message(),
              HasSubstr("variable 'b' has 1 elements"));
  options = Line();
  float w;
  options.model.lent_weights = {{&w, nullptr}, {}};
  EXPECT_THAT(ProgramWorker::Start(options).status().message(),
              HasSubstr("variable 'w': lend memory for both copies"));
  std::array<float, 3> memory;
  options.model.lent_weights = {{&memory[0], &memory[1]},
                                {&memory[2], &memory[1]}};
  EXPECT_THAT(ProgramWorker::Start(options).status().message(),
              HasSubstr("lent for its weights overlaps that of '"));
}

// What a job of three batches a step has computed, and its weights.
struct TrainedLine {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // Of its steps.
  std::vector<int64_t> indices;
  std::vector<std::vector<float>> weights;
};

// At the end of an epoch of 64 examples a step has two batches, of 5 and 4.
TrainedLine TrainInThrees(
    std::vector<std::pair<std::string, std::string>> settings) {
  ProgramWorker::Options options = Line();
  options.settings = std::move(settings);
  options.settings.emplace_back("epochs", "3");
  options.settings.emplace_back("batch_per_replica", "5");
  options.settings.emplace_back(
      "run_dir",
      absl::StrCat(::testing::TempDir(), "/threes-", options.settings[0].second,
                   "-", options.settings[1].first));
  options.settings.emplace_back("optimizer",
                                R"({"sgd": {"momentum": 0.9},
                                    "learning_rate": 0.1})");
  auto worker = ProgramWorker::Start(std::move(options));
  EXPECT_TRUE(worker.ok()) << worker.status();
  TrainedLine trained;
  if (!worker.ok()) return trained;
  for (;;) {
    const auto work = NextOf(worker->get());
    EXPECT_TRUE(work.ok()) << work.status();
    if (!work.ok() || *work == nullptr) break;
    const Portion& range = (*work)->range;
    trained.ranges.emplace_back(range.epoch, range.begin);
    trained.indices.insert(trained.indices.end(), (*work)->indices.begin(),
                           (*work)->indices.end());
    EXPECT_TRUE((*worker)->Finish(Compute(**work)).ok());
  }
  const auto saved = (*worker)->ReadSaved();
  EXPECT_TRUE(saved.ok()) << saved.status();
  if (saved.ok()) trained.weights = saved->weights;
  return trained;
}

TEST(ProgramWorkerTest, ReplicasAreOneModelThatComputesTheSharesInTurn) {
  const TrainedLine expected =
      TrainInThrees({{"strategy", "one_device"}, {"accumulate", "3"}});
  ASSERT_EQ(expected.ranges.size(), 3 * 13);
  EXPECT_TRUE(std::is_sorted(expected.ranges.begin(), expected.ranges.end()));
  for (const char* strategy :
       {"mirrored", "central_storage", "parameter_server"}) {
    std::vector<std::pair<std::string, std::string>> settings = {
        {"strategy", strategy}, {"replicas", "3"}};
    if (settings[0].second == "parameter_server") {
      settings.emplace_back("staleness", "sync");
    }
    const TrainedLine found = TrainInThrees(std::move(settings));
    EXPECT_EQ(found.ranges, expected.ranges) << strategy;
    EXPECT_EQ(found.indices, expected.indices) << strategy;
    EXPECT_EQ(found.weights, expected.weights) << strategy;
  }
}

TEST(ProgramWorkerTest, ABatchThatOneReplicaHasNotLeavesNothingOfTheStep) {
  ProgramWorker::Options options = ShortLine("1");
  options.settings.emplace_back("strategy", "mirrored");
  options.settings.emplace_back("replicas", "2");
  auto worker = ProgramWorker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  auto work = NextOf(worker->get());
  ASSERT_TRUE(work.ok() && *work != nullptr) << work.status();
  ASSERT_TRUE((*worker)->Finish(Compute(**work)).ok());
  work = NextOf(worker->get());
  ASSERT_TRUE(work.ok() && *work != nullptr) << work.status();
  Metrics metrics = Compute(**work);
  (*work)->gradients[0][0] = std::numeric_limits<float>::quiet_NaN();
  const absl::Status refused = (*worker)->Finish(metrics);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("nothing of this batch was pushed"));
  EXPECT_TRUE(absl::IsCancelled((*worker)->Close()));
  const auto saved = ProgramWorker::FindSaved(options);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->weights, options.model.initial_values);
}

}  // namespace
}  // namespace paramd
