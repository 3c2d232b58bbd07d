// A network that learns of others, beside the formula in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "compute/model/teachers.h"
#include "input/testing/random_batch.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<std::vector<float>>;  // By variable.
using Rows = std::vector<std::vector<double>>;    // By example.

constexpr uint64_t kExamples = 7;
constexpr uint64_t kWidth = 3;
constexpr uint64_t kClasses = 4;
constexpr char kLinear[] = "layers { dense { units: 4 } }";
constexpr char kDeep[] =
    "layers { dense { units: 5 } } "
    "layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } } "
    "layers { tanh {} } layers { dropout { rate: 0.5 } } "
    "layers { dense { units: 4 } }";

const InputSpec kInput{{FeatureSpec{.name = "x", .dims = {kWidth}},
                        FeatureSpec{.name = "label",
                                    .dtype = DType::kInt32,
                                    .dims = {},
                                    .classes = kClasses}}};

std::unique_ptr<Network> MakeStudent(const std::string& text,
                                     double temperature = 1,
                                     const InputSpec& input = kInput) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text + " loss: SOFTMAX_CROSS_ENTROPY", &config));
  std::unique_ptr<NetworkPlan> plan = *PlanNetwork(config, input);
  plan->temperature = temperature;
  return std::make_unique<Network>(std::move(plan), MakeTestDevice, "test");
}

Numbers Drawn(const TrainedModel& model, uint64_t seed) {
  RandomStream random(seed);
  Numbers weights;
  for (const v1::Variable& variable : model.variables()) {
    size_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    // A variance must not be below 0.
    for (float& value : weights.emplace_back(size)) {
      value = 2 * random.Uniform() + (variable.untrained() ? 0.1f : -1.0f);
    }
  }
  return weights;
}

std::vector<absl::Span<const float>> SpansOf(const Numbers& weights) {
  return {weights.begin(), weights.end()};
}

struct Stepped {
  Metrics metrics;
  Numbers gradients;
};

absl::StatusOr<Stepped> StepOf(TrainedModel* model, const Numbers& weights,
                               const Batch& batch) {
  Stepped stepped{.metrics = {}, .gradients = weights};
  std::vector<absl::Span<float>> spans;
  for (auto& one : stepped.gradients) spans.push_back(absl::MakeSpan(one));
  auto metrics = model->Step(SpansOf(weights), batch,
                             {.divisor = static_cast<double>(batch.size())},
                             spans, [](size_t) {});
  if (!metrics.ok()) return metrics.status();
  stepped.metrics = *std::move(metrics);
  return stepped;
}

Batch SomeBatch(uint64_t epoch = 1) {
  return RandomBatch(kInput, {.epoch = epoch, .begin = 0, .end = kExamples},
                     /*seed=*/4);
}

// x W + b.
Rows LinearOf(const Numbers& weights, const Batch& batch) {
  const auto x = batch.Find("x")->values<float>();
  Rows rows;
  for (uint64_t i = 0; i < batch.size(); ++i) {
    std::vector<double>& row = rows.emplace_back();
    for (uint64_t c = 0; c < kClasses; ++c) {
      double z = double{weights[1][c]};
      for (uint64_t k = 0; k < kWidth; ++k) {
        z += double{x[i * kWidth + k]} * double{weights[0][k * kClasses + c]};
      }
      row.push_back(z);
    }
  }
  return rows;
}

std::vector<double> SoftmaxOf(const std::vector<double>& z, double t) {
  std::vector<double> p;
  double sum = 0;
  for (const double one : z) sum += p.emplace_back(std::exp(one / t));
  for (double& one : p) one /= sum;
  return p;
}

// What is taught, and the formula.
struct Lesson {
  double temperature;
  double alpha;
  Rows taught = {};  // Probabilities.

  // Of one example.
  double LossOf(uint64_t i, const std::vector<double>& z, int label) const {
    const std::vector<double> q = SoftmaxOf(z, temperature);
    double divergence = 0;
    for (size_t c = 0; c < z.size(); ++c) {
      divergence += taught[i][c] * std::log(taught[i][c] / q[c]);
    }
    return (1 - alpha) * -std::log(SoftmaxOf(z, 1)[label]) +
           alpha * temperature * temperature * divergence;
  }
};

// Two linear teachers, and the mean of what they say.
std::unique_ptr<Teachers> TwoTeachers(const Batch& batch, Lesson* lesson) {
  std::vector<Teachers::Teacher> teachers;
  lesson->taught.assign(batch.size(), std::vector<double>(kClasses, 0));
  for (const uint64_t seed : {21, 22}) {
    std::shared_ptr<TrainedModel> model =
        MakeStudent(kLinear, lesson->temperature);
    const auto weights = std::make_shared<const Numbers>(Drawn(*model, seed));
    const Rows z = LinearOf(*weights, batch);
    for (size_t i = 0; i < z.size(); ++i) {
      const std::vector<double> p = SoftmaxOf(z[i], lesson->temperature);
      for (size_t c = 0; c < p.size(); ++c) lesson->taught[i][c] += p[c] / 2;
    }
    teachers.push_back({"a teacher", std::move(model), weights});
  }
  return std::make_unique<Teachers>(std::move(teachers), lesson->temperature,
                                    lesson->alpha);
}

using NetworkTeachersTest = OnTestDevice;

TEST_F(NetworkTeachersTest, LossAndGradientAreThoseOfTheFormula) {
  constexpr double kStep = 1e-5;
  const Batch batch = SomeBatch();
  const auto x = batch.Find("x")->values<float>();
  const auto labels = batch.Find("label")->values<int32_t>();
  for (const double temperature : {0.5, 1.0, 2.0, 5.0, 20.0}) {
    for (const double alpha : {0.0, 0.3, 1.0}) {
      SCOPED_TRACE(::testing::Message()
                   << "temperature " << temperature << ", alpha " << alpha);
      Lesson lesson{.temperature = temperature, .alpha = alpha};
      const auto student = MakeStudent(kLinear);
      student->LearnFrom(TwoTeachers(batch, &lesson));
      const Numbers weights = Drawn(*student, 3);
      const Stepped found = *StepOf(student.get(), weights, batch);

      double loss = 0;
      std::vector<double> kernel(kWidth * kClasses, 0);
      std::vector<double> bias(kClasses, 0);
      const Rows z = LinearOf(weights, batch);
      for (uint64_t i = 0; i < kExamples; ++i) {
        loss += lesson.LossOf(i, z[i], labels[i]);
        const std::vector<double> q = SoftmaxOf(z[i], temperature);
        const std::vector<double> p = SoftmaxOf(z[i], 1);
        for (uint64_t c = 0; c < kClasses; ++c) {
          const double hit = static_cast<int>(c) == labels[i] ? 1 : 0;
          const double slope =
              (1 - alpha) * (p[c] - hit) +
              alpha * temperature * (q[c] - lesson.taught[i][c]);
          std::vector<double> above = z[i], below = z[i];
          above[c] += kStep;
          below[c] -= kStep;
          EXPECT_NEAR(slope,
                      (lesson.LossOf(i, above, labels[i]) -
                       lesson.LossOf(i, below, labels[i])) /
                          (2 * kStep),
                      1e-6);
          bias[c] += slope / kExamples;
          for (uint64_t k = 0; k < kWidth; ++k) {
            kernel[k * kClasses + c] +=
                slope * double{x[i * kWidth + k]} / kExamples;
          }
        }
      }
      EXPECT_NEAR(found.metrics.loss_sum, loss, 1e-5 * (1 + loss));
      EXPECT_EQ(found.metrics.examples, kExamples);
      for (size_t k = 0; k < kernel.size(); ++k) {
        EXPECT_NEAR(found.gradients[0][k], kernel[k], 2e-5);
      }
      for (size_t c = 0; c < bias.size(); ++c) {
        EXPECT_NEAR(found.gradients[1][c], bias[c], 2e-5);
      }
    }
  }
}

TEST_F(NetworkTeachersTest, WithoutTheirPartAStepIsThatOfTheLabels) {
  const Batch batch = SomeBatch();
  Lesson lesson{.temperature = 3, .alpha = 0};
  const auto taught = MakeStudent(kDeep);
  taught->LearnFrom(TwoTeachers(batch, &lesson));
  const auto alone = MakeStudent(kDeep);
  const Numbers weights = Drawn(*alone, 3);
  const Stepped found = *StepOf(taught.get(), weights, batch);
  const Stepped wanted = *StepOf(alone.get(), weights, batch);
  EXPECT_EQ(found.gradients, wanted.gradients);
  EXPECT_EQ(found.metrics.loss_sum, wanted.metrics.loss_sum);
}

TEST_F(NetworkTeachersTest, EvaluationsAndWhatIsCountedAreOfTheLabels) {
  const Batch batch = SomeBatch();
  Lesson lesson{.temperature = 3, .alpha = 0.9};
  const auto taught = MakeStudent(kLinear);
  taught->LearnFrom(TwoTeachers(batch, &lesson));
  const auto alone = MakeStudent(kLinear);
  const Numbers weights = Drawn(*alone, 3);
  const Metrics wanted = *alone->Evaluate(SpansOf(weights), batch);
  EXPECT_EQ(taught->Evaluate(SpansOf(weights), batch)->loss_sum,
            wanted.loss_sum);
  const Metrics stepped = StepOf(taught.get(), weights, batch)->metrics;
  EXPECT_EQ(stepped.correct, wanted.correct);
  EXPECT_EQ(stepped.labels, wanted.labels);
  EXPECT_NE(stepped.loss_sum, wanted.loss_sum);
}

TEST_F(NetworkTeachersTest, ACloneLearnsTheSame) {
  const Batch batch = SomeBatch();
  Lesson lesson{.temperature = 2, .alpha = 0.5};
  const auto student = MakeStudent(kDeep);
  student->LearnFrom(TwoTeachers(batch, &lesson));
  const Numbers weights = Drawn(*student, 3);
  const Stepped wanted = *StepOf(student.get(), weights, batch);
  for (const auto& clone : {student->Clone(), student->CloneForReplica(2)}) {
    EXPECT_EQ(StepOf(clone.get(), weights, batch)->gradients, wanted.gradients);
  }
}

TEST_F(NetworkTeachersTest, ATeacherComputesAsInAnEvaluation) {
  const std::shared_ptr<TrainedModel> model = MakeStudent(kDeep, 2);
  const auto weights = std::make_shared<const Numbers>(Drawn(*model, 9));
  Teachers teachers({{"a", model, weights}}, 2, 0.5);
  std::vector<std::vector<float>> said;
  for (const uint64_t epoch : {1, 2}) {
    const Batch batch = SomeBatch(epoch);
    Loss::Target target{batch.Find("label")->tensor()};
    ASSERT_TRUE(teachers.AddTo(batch, &target).ok());
    const auto values = target.soft.values<float>();
    said.emplace_back(values.begin(), values.end());
  }
  EXPECT_EQ(said[0], said[1]);
  // Statistics of the batch play no part: an example alone has the same.
  const Batch batch = SomeBatch();
  for (uint64_t i = 0; i < kExamples; ++i) {
    Batch one;
    one.CopyExamples(batch, i, i + 1);
    Loss::Target target{one.Find("label")->tensor()};
    ASSERT_TRUE(teachers.AddTo(one, &target).ok());
    for (uint64_t c = 0; c < kClasses; ++c) {
      EXPECT_NEAR(target.soft.values<float>()[c], said[0][i * kClasses + c],
                  1e-6);
    }
  }
}

// As of two files of labels, one before and one behind what computes.
TEST_F(NetworkTeachersTest, WhatIsKnownTeachesAsWhatComputes) {
  constexpr double kTemperature = 2;
  Batch batch = SomeBatch();
  std::vector<Teachers::Teacher> computing;
  for (const uint64_t seed : {21, 22, 23}) {
    std::shared_ptr<TrainedModel> model = MakeStudent(kDeep, kTemperature);
    const auto weights = std::make_shared<const Numbers>(Drawn(*model, seed));
    computing.push_back({"a teacher", std::move(model), weights});
  }
  for (const size_t known : {0, 2}) {
    Teachers alone({computing[known]}, kTemperature, 0.5);
    Loss::Target target{batch.Find("label")->tensor()};
    ASSERT_TRUE(alone.AddTo(batch, &target).ok());
    Column& column = batch.taught.emplace_back();
    column.Reset(FeatureSpec{.name = "taught", .dims = {kClasses}}, kExamples);
    const auto said = target.soft.values<float>();
    std::copy(said.begin(), said.end(), column.values<float>().begin());
  }
  const auto student = MakeStudent(kDeep);
  const Numbers weights = Drawn(*student, 3);
  student->LearnFrom(std::make_unique<Teachers>(computing, kTemperature, 0.5));
  const Stepped wanted = *StepOf(student.get(), weights, batch);
  student->LearnFrom(std::make_unique<Teachers>(
      std::vector<Teachers::Teacher>{
          {.name = "first"}, computing[1], {.name = "last"}},
      kTemperature, 0.5));
  EXPECT_EQ(StepOf(student.get(), weights, batch)->gradients, wanted.gradients);
  const auto clone = student->CloneForReplica(2);
  EXPECT_EQ(StepOf(clone.get(), weights, batch)->gradients, wanted.gradients);
  batch.taught[1].values<float>()[0] = std::numeric_limits<float>::infinity();
  const auto found = StepOf(student.get(), weights, batch).status();
  EXPECT_EQ(found.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.message()),
              HasSubstr("teacher 'last': example"));
}

TEST_F(NetworkTeachersTest, IgnoredLabelsCountInNeitherPart) {
  Batch batch = SomeBatch();
  Lesson lesson{.temperature = 2, .alpha = 0.5};
  auto labels = batch.Find("label")->values<int32_t>();
  for (const uint64_t i : {1, 4}) labels[i] = -1;
  const auto student = MakeStudent(std::string(kLinear) + " ignore_label: -1");
  student->LearnFrom(TwoTeachers(batch, &lesson));
  const Numbers weights = Drawn(*student, 3);
  const Stepped found = *StepOf(student.get(), weights, batch);
  const Rows z = LinearOf(weights, batch);
  double loss = 0;
  for (uint64_t i = 0; i < kExamples; ++i) {
    if (labels[i] >= 0) loss += lesson.LossOf(i, z[i], labels[i]);
  }
  EXPECT_NEAR(found.metrics.loss_sum, loss, 1e-5 * (1 + loss));
  EXPECT_EQ(found.metrics.examples, kExamples - 2);
}

TEST_F(NetworkTeachersTest, TheWeightOfAnExampleIsOfBothParts) {
  InputSpec input = kInput;
  input.features.push_back(FeatureSpec{.name = "weight", .dims = {}});
  Batch batch = RandomBatch(input, {.epoch = 1, .begin = 0, .end = kExamples},
                            /*seed=*/4);
  const auto example_weights = batch.Find("weight")->values<float>();
  for (uint64_t i = 0; i < kExamples; ++i) {
    example_weights[i] = 0.75f * static_cast<float>(i % 3);
  }
  Lesson lesson{.temperature = 2, .alpha = 0.3};
  const auto student = MakeStudent(
      std::string(kLinear) + " input: 'x' example_weight: 'weight'", 1, input);
  student->LearnFrom(TwoTeachers(batch, &lesson));
  const Numbers weights = Drawn(*student, 3);
  const Stepped found = *StepOf(student.get(), weights, batch);
  // Beside what examples alone give.
  const auto plain = MakeStudent(kLinear);
  plain->LearnFrom(TwoTeachers(batch, &lesson));
  double loss = 0;
  std::vector<std::vector<double>> gradients;
  for (uint64_t i = 0; i < kExamples; ++i) {
    Batch one;
    one.CopyExamples(batch, i, i + 1);
    const Stepped alone = *StepOf(plain.get(), weights, one);
    const double weight = double{example_weights[i]};
    loss += weight * alone.metrics.loss_sum;
    gradients.resize(alone.gradients.size());
    for (size_t v = 0; v < gradients.size(); ++v) {
      gradients[v].resize(alone.gradients[v].size());
      for (size_t k = 0; k < gradients[v].size(); ++k) {
        gradients[v][k] += weight * double{alone.gradients[v][k]} / kExamples;
      }
    }
  }
  EXPECT_NEAR(found.metrics.loss_sum, loss, 1e-5 * (1 + loss));
  EXPECT_EQ(found.metrics.examples, kExamples);
  for (size_t v = 0; v < gradients.size(); ++v) {
    for (size_t k = 0; k < gradients[v].size(); ++k) {
      EXPECT_NEAR(found.gradients[v][k], gradients[v][k], 2e-5);
    }
  }
}

TEST_F(NetworkTeachersTest, ATeacherThatSaysNoNumberIsNamed) {
  const std::shared_ptr<TrainedModel> model = MakeStudent(kLinear);
  Numbers weights = Drawn(*model, 9);
  weights[1][2] = std::numeric_limits<float>::quiet_NaN();
  const auto student = MakeStudent(kLinear);
  student->LearnFrom(std::make_unique<Teachers>(
      std::vector<Teachers::Teacher>{
          {"runs/broken", model, std::make_shared<const Numbers>(weights)}},
      2, 0.5));
  const auto found =
      StepOf(student.get(), Drawn(*student, 3), SomeBatch()).status();
  EXPECT_EQ(found.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.message()),
              HasSubstr("teacher 'runs/broken': example"));
}

}  // namespace
}  // namespace paramd
