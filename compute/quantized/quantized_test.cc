#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "checkpoint/quantization.h"
#include "compute/model/network.h"
#include "compute/quantized/products.h"
#include "compute/quantized/quantize.h"
#include "compute/quantized/quantized_network.h"
#include "compute/quantized/testing/quantized_models.h"
#include "input/pipeline.h"

namespace paramd {
namespace {

using Mode = Quantization::Mode;
using ::testing::HasSubstr;

// 800 of 8 pictures of random signs, faint under noise.
class PicturesSource : public ExampleSource {
 public:
  static constexpr uint64_t kClasses = 8;

  // [class, pixel]
  static float Pixel(uint64_t label, uint64_t i) {
    return RandomStream(1000 * label + i).Below(2) == 0 ? -1.0f : 1.0f;
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return 800; }
  v1::DataSet Describe() const override { return {}; }
  absl::Status Read(uint64_t index, Example* example) const override {
    RandomStream random(index);
    const uint64_t label = index % kClasses;
    example->values.resize(2);
    example->values[0].Reset(DType::kFloat32, {256});
    uint64_t i = 0;
    for (float& value : example->values[0].values<float>()) {
      value = 0.12f * Pixel(label, i++) +
              static_cast<float>(random.Below(2001)) / 1000 - 1;
    }
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] = static_cast<int32_t>(label);
    return absl::OkStatus();
  }

 private:
  const InputSpec spec_ = LabelledImages({256}, kClasses);
};

// Three of four of them, as a join without a match drops an example.
class DroppedPicturesSource : public PicturesSource {
 public:
  absl::Status Read(uint64_t index, Example* example) const override {
    const absl::Status read = PicturesSource::Read(index, example);
    example->dropped = index % 4 == 0;
    return read;
  }
};

v1::ModelConfig Convolutions() {
  return ClassifierOf(R"pb(
    layers { reshape { dims: [ 8, 8, 4 ] } }
    layers {
      conv2d {
        filters: 8
        kernel: 3
        stride: 1
        groups: 1
        padding: SAME
        bias: false
      }
    }
    layers { batch_norm { epsilon: 1e-5 momentum: 0.9 } }
    layers { relu {} }
    layers { max_pool { size: 2 padding: VALID } }
    layers {
      conv2d {
        filters: 6
        kernel: 3
        stride: 1
        groups: 1
        padding: SAME
        bias: true
      }
    }
    layers { relu {} }
    layers { flatten {} }
    layers { dropout { rate: 0.5 } }
    layers { dense { units: 12 } }
    layers { tanh {} }
    layers { dense { units: 3 } }
  )pb");
}

// How many of the set the model says right.
double Accuracy(const ModelWeights& weights, const Pipeline& data,
                TrainedModel* model) {
  Batch batch;
  EXPECT_TRUE(
      data.Read({.epoch = 1, .begin = 0, .end = data.size()}, &batch).ok());
  const auto labels = batch.columns[1].values<int32_t>();
  const std::vector<float> said = PredictionsOf(weights, data, model);
  const size_t classes = said.size() / labels.size();
  int right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = said.begin() + static_cast<ptrdiff_t>(i * classes);
    right +=
        std::max_element(row, row + static_cast<ptrdiff_t>(classes)) - row ==
        labels[i];
  }
  return right / static_cast<double>(labels.size());
}

TEST(QuantizeTest, AFoldedBatchNormMeansTheSame) {
  const auto data = OpenRandomImages();
  const auto plan = PlanNetwork(Convolutions(), data->spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ModelWeights weights = RandomModelWeights(**plan, 3);
  const FoundProducts found = FindProducts(**plan, Mode::kStatic);
  ASSERT_EQ(found.products.size(), 4);
  ASSERT_TRUE(found.products[0].batch_norm.has_value());
  // The same network with the folded kernel, and a batch norm that only adds.
  const FoldedProduct folded =
      Fold(**plan, found.products[0], SpansOf(weights));
  ModelWeights other = weights;
  const auto set = [&](const char* name, std::vector<float> values) {
    for (size_t v = 0; v < (*plan)->variables.size(); ++v) {
      if ((*plan)->variables[v].name() == name) other[v] = std::move(values);
    }
  };
  set("conv2d_1/kernel", folded.kernel);
  set("batch_norm_1/scale", std::vector<float>(8, 1));
  set("batch_norm_1/shift", folded.bias);
  set("batch_norm_1/mean", std::vector<float>(8, 0));
  set("batch_norm_1/variance", std::vector<float>(8, 1 - 1e-5f));
  auto network = Network::Create(Convolutions(), data->spec());
  ASSERT_TRUE(network.ok());
  EXPECT_LT(Farthest(PredictionsOf(weights, *data, network->get()),
                     PredictionsOf(other, *data, network->get())),
            1e-4);
}

TEST(QuantizeTest, IntegersPredictNearlyTheSameByEveryWay) {
  const auto data = OpenRandomImages();
  const auto plan = PlanNetwork(Convolutions(), data->spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ModelWeights weights = RandomModelWeights(**plan, 3);
  auto network = Network::Create(Convolutions(), data->spec());
  ASSERT_TRUE(network.ok());
  const auto expected = PredictionsOf(weights, *data, network->get());
  struct Case {
    Mode mode;
    bool per_channel;
    int most;
    const char* observer;
    float within;
    int activation_bits = 8;
  };
  for (const Case& one :
       {Case{Mode::kStatic, true, 127, "min_max", 0.05f},
        Case{Mode::kStatic, true, 63, "min_max", 0.1f},
        Case{Mode::kStatic, false, 127, "min_max", 0.1f},
        Case{Mode::kStatic, true, 127, "moving_average", 0.05f},
        Case{Mode::kStatic, true, 127, "percentile", 0.05f},
        Case{Mode::kStatic, true, 127, "min_max", 0.05f, 16},
        Case{Mode::kStatic, false, 63, "histogram", 0.1f, 16},
        Case{Mode::kStatic, true, 127, "entropy", 0.05f, 16},
        Case{Mode::kStatic, true, 127, "histogram", 0.05f},
        Case{Mode::kStatic, true, 127, "entropy", 0.3f},
        Case{Mode::kDynamic, true, 127, "min_max", 0.05f},
        Case{Mode::kFloat16, true, 127, "min_max", 0.005f},
        Case{Mode::kBFloat16, true, 127, "min_max", 0.05f}}) {
    SCOPED_TRACE(std::string(NameOf(one.mode)) + " " + one.observer);
    QuantizeOptions options;
    options.mode = one.mode;
    options.per_channel = one.per_channel;
    options.most_weight = one.most;
    options.observer = one.observer;
    options.activation_bits = one.activation_bits;
    options.calibration = data.get();
    const auto made =
        Quantize(Convolutions(), data->spec(), SpansOf(weights), options);
    ASSERT_TRUE(made.ok()) << made.status();
    const WrittenModel written = WriteAndRead(**plan, *made, "nearly");
    // Readers that know nothing of integers compute with the weights.
    EXPECT_LT(Farthest(PredictionsOf(written.weights, *data, network->get()),
                       expected),
              one.within);
    std::vector<float> first;
    for (const auto use : {IntegerKernels::Use::kWhatIsRight,
                           IntegerKernels::Use::kPlainLoops}) {
      auto quantized =
          OpenQuantized(Convolutions(), data->spec(), written.directory,
                        SpansOf(written.weights), use);
      ASSERT_TRUE(quantized.ok()) << quantized.status();
      const auto found =
          PredictionsOf(written.weights, *data, quantized->get());
      EXPECT_LT(Farthest(found, expected), one.within);
      if (first.empty()) first = found;
      EXPECT_EQ(found, first);  // The same bits, whatever computes them.
    }
  }
}

// Of two dense layers: eight units look for the pictures, and the ninth is
// always a thousand times as large as they.
ModelWeights WeightsWithAnOutlier() {
  constexpr uint64_t kClasses = PicturesSource::kClasses;
  constexpr float kOutlier = 2000;
  ModelWeights weights = {std::vector<float>(256 * 9), std::vector<float>(9),
                          std::vector<float>(9 * kClasses),
                          std::vector<float>(kClasses)};
  for (uint64_t c = 0; c <= kClasses; ++c) {
    for (uint64_t i = 0; i < 256; ++i) {
      weights[0][i * 9 + c] = PicturesSource::Pixel(c, i) / 16;
    }
  }
  weights[1][kClasses] = kOutlier;
  for (uint64_t c = 0; c < kClasses; ++c) {
    const float of_outlier = (c % 2 == 0 ? 1.0f : -1.0f) / 127;
    weights[2][c * kClasses + c] = 1;
    weights[2][kClasses * kClasses + c] = of_outlier;
    weights[3][c] = -kOutlier * of_outlier;
  }
  return weights;
}

// In 8 bits nothing is left of the others.
TEST(QuantizeTest, WithOneChannelFarAboveTheOthers16BitsKeepWhat8Lose) {
  const auto opened =
      Pipeline::Create(std::make_unique<PicturesSource>(), v1::InputConfig(),
                       {.seed = 1, .training = true});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Pipeline& data = **opened;
  const v1::ModelConfig model = ClassifierOf(
      "layers { dense { units: 9 } } layers { relu {} } "
      "layers { dense { units: 8 } }");
  const auto plan = PlanNetwork(model, data.spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ModelWeights weights = WeightsWithAnOutlier();
  auto network = Network::Create(model, data.spec());
  ASSERT_TRUE(network.ok());
  const double in_float = Accuracy(weights, data, network->get());
  EXPECT_GT(in_float, 0.8);
  QuantizeOptions options;
  options.calibration = &data;
  for (const char* const observer : {"min_max", "percentile", "histogram"}) {
    SCOPED_TRACE(observer);
    options.observer = observer;
    std::vector<Quantized> made;
    std::vector<double> accuracies;
    for (const int bits : {8, 16}) {
      options.activation_bits = bits;
      auto quantized = Quantize(model, data.spec(), SpansOf(weights), options);
      ASSERT_TRUE(quantized.ok()) << quantized.status();
      made.push_back(*std::move(quantized));
      const WrittenModel written = WriteAndRead(**plan, made.back(), "outlier");
      const auto integers = OpenQuantized(model, data.spec(), written.directory,
                                          SpansOf(written.weights));
      ASSERT_TRUE(integers.ok()) << integers.status();
      accuracies.push_back(Accuracy(written.weights, data, integers->get()));
    }
    EXPECT_LT(accuracies[0], 0.4) << "by chance it is 0.125";
    EXPECT_NEAR(accuracies[1], in_float, 0.02);
    // The weights are the same, in 8 bits.
    for (size_t v = 0; v < weights.size(); ++v) {
      EXPECT_EQ(made[0].tensors[v].dtype, made[1].tensors[v].dtype);
      EXPECT_EQ(made[0].tensors[v].bytes, made[1].tensors[v].bytes);
      EXPECT_EQ(made[0].tensors[v].scales, made[1].tensors[v].scales);
    }
  }
}

TEST(QuantizeTest, ConsecutiveProductsHandIntegersOn) {
  const auto data = OpenRandomImages();
  auto plan = PlanNetwork(Convolutions(), data->spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ModelWeights weights = RandomModelWeights(**plan, 3);
  QuantizeOptions options;
  options.calibration = data.get();
  const auto made =
      Quantize(Convolutions(), data->spec(), SpansOf(weights), options);
  ASSERT_TRUE(made.ok()) << made.status();
  const WrittenModel written = WriteAndRead(**plan, *made, "consecutive");
  const auto tensors = ReadIntegerTensors(written.directory,
                                          {"conv2d_1/kernel", "conv2d_2/kernel",
                                           "dense_1/kernel", "dense_2/kernel"});
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_TRUE(UseIntegers(made->quantization, *tensors,
                          SpansOf(written.weights), plan->get())
                  .ok());
  // From the first convolution, with batch norm, relus and the pool, to the
  // dense layer before tanh; then the last one.
  const Sequence& layers = *(*plan)->layers;
  ASSERT_EQ(layers.size(), 4);
  EXPECT_EQ(layers.layer(1).name(), "conv2d_1");
  EXPECT_EQ(layers.layer(1).output_dims(), (Dims{12}));
  EXPECT_EQ(layers.layer(2).name(), "tanh_1");
  EXPECT_EQ(layers.layer(3).name(), "dense_2");
  EXPECT_TRUE(layers.variables().empty());
}

TEST(QuantizeTest, WhatIsLeftInFloatIsNamedWithTheReason) {
  const auto data = OpenRandomImages();
  const auto plan = PlanNetwork(
      ClassifierOf(R"pb(
        layers { reshape { dims: [ 16, 16, 1 ] } }
        layers {
          conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 padding: VALID }
        }
        layers { residual { layers { relu {} } } }
        layers { flatten {} }
        layers { layer_norm { epsilon: 1e-5 } }
        layers { dense { units: 3 } }
      )pb"),
      data->spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const FoundProducts found = FindProducts(**plan, Mode::kStatic);
  ASSERT_EQ(found.products.size(), 1);
  ASSERT_EQ(found.left.size(), 2);
  EXPECT_EQ(found.left[0].name, "conv2d_1");
  EXPECT_THAT(found.left[0].why, HasSubstr("of 1 channel"));
  EXPECT_EQ(found.left[1].name, "layer_norm_1");
  EXPECT_THAT(found.left[1].why, HasSubstr("neither a dense layer"));
  const FoundProducts dynamic = FindProducts(**plan, Mode::kDynamic);
  EXPECT_THAT(dynamic.left[0].why, HasSubstr("needs static ranges"));
}

TEST(QuantizeTest, ASharedKernelIsLeftInFloat) {
  const auto data = OpenRandomImages();
  const auto plan = PlanNetwork(
      ClassifierOf(R"pb(layers { dense { units: 256 name: "twice" } }
                        layers { relu {} }
                        layers { dense { units: 256 name: "twice" } }
                        layers { dense { units: 3 } })pb"),
      data->spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const FoundProducts found = FindProducts(**plan, Mode::kStatic);
  EXPECT_EQ(found.products.size(), 1);
  ASSERT_EQ(found.left.size(), 2);
  EXPECT_THAT(found.left[0].why, HasSubstr("has the same variables"));
}

TEST(QuantizeTest, ASetThatIsConstantIsRefused) {
  const auto data = OpenRandomImages();
  const auto constant = OpenRandomImages(/*constant=*/true);
  const auto plan = PlanNetwork(Convolutions(), data->spec());
  ASSERT_TRUE(plan.ok());
  QuantizeOptions options;
  options.calibration = constant.get();
  options.calibrated_on = "train";
  const auto made = Quantize(Convolutions(), data->spec(),
                             SpansOf(RandomModelWeights(**plan, 1)), options);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("the calibration set, train, is constant: all of its "
                        "64 examples are 5.5"));
}

TEST(QuantizeTest, WhatIsRecordedAreTheExamplesThatWereRead) {
  const auto opened =
      Pipeline::Create(std::make_unique<DroppedPicturesSource>(),
                       v1::InputConfig(), {.seed = 1, .training = true});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Pipeline& data = **opened;
  const v1::ModelConfig model = ClassifierOf("layers { dense { units: 8 } }");
  const auto plan = PlanNetwork(model, data.spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  QuantizeOptions options;
  options.calibration = &data;
  const auto made = Quantize(model, data.spec(),
                             SpansOf(RandomModelWeights(**plan, 1)), options);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->quantization.examples, 600u);
}

// As in float32, and no other example's outputs change.
TEST(QuantizeTest, AnExampleThatIsNotFiniteIsPredictedAsNotANumber) {
  const auto data = OpenRandomImages();
  const v1::ModelConfig model = ClassifierOf(
      "layers { dense { units: 12 } } layers { relu {} } "
      "layers { dense { units: 3 } }");
  const auto plan = PlanNetwork(model, data->spec());
  ASSERT_TRUE(plan.ok());
  const ModelWeights weights = RandomModelWeights(**plan, 1);
  for (const auto& [mode, bits] :
       {std::pair{Mode::kStatic, 8}, std::pair{Mode::kStatic, 16},
        std::pair{Mode::kDynamic, 8}}) {
    QuantizeOptions options;
    options.mode = mode;
    options.activation_bits = bits;
    if (mode == Mode::kStatic) options.calibration = data.get();
    const auto made = Quantize(model, data->spec(), SpansOf(weights), options);
    ASSERT_TRUE(made.ok()) << made.status();
    const WrittenModel written = WriteAndRead(**plan, *made, "not_finite");
    const auto opened = OpenQuantized(model, data->spec(), written.directory,
                                      SpansOf(written.weights));
    ASSERT_TRUE(opened.ok()) << opened.status();
    Batch batch;
    ASSERT_TRUE(data->Read({.epoch = 1, .begin = 0, .end = 4}, &batch).ok());
    Batch whole;
    ASSERT_TRUE(
        (*opened)->Predict(SpansOf(written.weights), batch, &whole).ok());
    auto values = batch.columns[0].values<float>();
    values[256 + 7] = std::nanf("");
    values[3 * 256] = -INFINITY;
    Batch out;
    ASSERT_TRUE((*opened)->Predict(SpansOf(written.weights), batch, &out).ok());
    for (size_t i = 0; i < 12; ++i) {
      const float found = out.columns[0].values<float>()[i];
      if (i / 3 % 2 == 1) {
        EXPECT_TRUE(std::isnan(found)) << i;
      } else {
        EXPECT_EQ(found, whole.columns[0].values<float>()[i]) << i;
      }
    }
  }
}

TEST(QuantizeTest, WeightsThatNoFormatHoldsAreRefused) {
  const auto data = OpenRandomImages();
  const auto plan = PlanNetwork(Convolutions(), data->spec());
  ASSERT_TRUE(plan.ok());
  ModelWeights weights = RandomModelWeights(**plan, 1);
  weights[0][0] = 1e6f;
  QuantizeOptions options;
  options.calibration = data.get();
  options.mode = Mode::kFloat16;
  EXPECT_THAT(std::string(Quantize(Convolutions(), data->spec(),
                                   SpansOf(weights), options)
                              .status()
                              .message()),
              HasSubstr("'conv2d_1/kernel' has a number that is too large"));
  weights[0][0] = std::nanf("");
  options.mode = Mode::kStatic;
  EXPECT_EQ(Quantize(Convolutions(), data->spec(), SpansOf(weights), options)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(QuantizeTest, AQuantisationOfAnotherModelIsRefusedByName) {
  const auto data = OpenRandomImages();
  const v1::ModelConfig model = ClassifierOf(
      "layers { dense { units: 12 } } layers { dense { units: 3 } }");
  const auto plan = PlanNetwork(model, data->spec());
  ASSERT_TRUE(plan.ok());
  const ModelWeights weights = RandomModelWeights(**plan, 1);
  QuantizeOptions options;
  options.calibration = data.get();
  auto made = Quantize(model, data->spec(), SpansOf(weights), options);
  ASSERT_TRUE(made.ok()) << made.status();
  made->quantization.layers[0].folded = "batch_norm_1";
  const WrittenModel written = WriteAndRead(**plan, *made, "another");
  const auto opened = OpenQuantized(model, data->spec(), written.directory,
                                    SpansOf(written.weights));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("its dense layer 'dense_1' with 'batch_norm_1' after "
                        "it is none of the job's"));
}

}  // namespace
}  // namespace paramd
