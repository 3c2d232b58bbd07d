// Evaluations of the examples of which a feature has a value.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using SlicesTest = OnTestDevice;
using Json = nlohmann::json;

const InputSpec kVisits{{FeatureSpec{"x", DType::kFloat32, {3}},
                         FeatureSpec{"click", DType::kFloat32, {}},
                         FeatureSpec{"stars", DType::kInt32, {}, 3},
                         FeatureSpec{"weight", DType::kFloat32, {}},
                         FeatureSpec{"user", DType::kInt64, {}},
                         FeatureSpec{"place", DType::kInt32, {1}, 4},
                         FeatureSpec{"device", DType::kInt32, {}, 5}}};

constexpr char kClick[] =
    "outputs { name: 'click' label: 'click' loss: BINARY_CROSS_ENTROPY "
    "  layers { dense { units: 1 } } group: 'user' metrics: [ACCURACY, AUC, "
    "  GROUP_AUC, NORMALISED_ENTROPY, CALIBRATION] } ";
constexpr char kStars[] =
    "outputs { name: 'stars' label: 'stars' loss: SOFTMAX_CROSS_ENTROPY "
    "  ignore_label: 2 layers { dense { units: 3 } } "
    "  metrics: [ACCURACY, TOP_K, PERPLEXITY] top_k: 2 } ";

// Tanh of x and, looked up, the place.
constexpr char kReadsThePlace[] =
    "layers { parallel { "
    "  branches { input: 'x' layers { dense { units: 4 } } "
    "             layers { tanh {} } } "
    "  branches { input: 'place' layers { embedding { width: 2 } } "
    "             layers { flatten {} } } } } ";
constexpr char kReadsX[] =
    "input: 'x' layers { dense { units: 4 } } layers { tanh {} } ";

v1::ModelConfig Parsed(const std::string& text) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return config;
}

std::string Sliced(const char* layers, const std::string& features) {
  const std::string text =
      std::string(layers) + kClick + kStars + "example_weight: 'weight' ";
  return features.empty() ? text : text + "slices: [" + features + "]";
}

// A network with values that follow from the variables' names.
struct Made {
  explicit Made(const std::string& text, const InputSpec& input = kVisits)
      : model(*Network::Create(Parsed(text), input, MakeTestDevice)) {
    for (const v1::Variable& variable : model->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      RandomStream random(StableHash(variable.name(), 1));
      for (float& value : values.emplace_back(size)) {
        value = 2 * random.Uniform() - 1;
      }
      gradients.emplace_back(size);
    }
    for (const auto& one : values) views.emplace_back(one);
    for (auto& one : gradients) spans.push_back(absl::MakeSpan(one));
  }

  absl::StatusOr<Metrics> Evaluate(const Batch& batch) {
    return model->Evaluate(views, batch);
  }

  std::unique_ptr<Network> model;
  std::vector<std::vector<float>> values, gradients;
  std::vector<absl::Span<const float>> views;
  std::vector<absl::Span<float>> spans;
};

// No example has device 3, and all with device 4 ignore their stars.
Batch SomeVisits(uint64_t size) {
  RandomStream random(7);
  Batch batch;
  batch.Reset(kVisits, size);
  batch.range = {.epoch = 1, .begin = 0, .end = size};
  for (float& value : batch.Find("x")->values<float>()) {
    value = 4 * random.Uniform() - 2;
  }
  for (uint64_t i = 0; i < size; ++i) {
    const auto below = [&](uint32_t n) { return random.Below(n); };
    const auto device = static_cast<int32_t>(i % 4 == 3 ? 4u : below(3));
    batch.Find("click")->values<float>()[i] = static_cast<float>(below(2));
    batch.Find("stars")->values<int32_t>()[i] =
        device == 4 ? 2 : static_cast<int32_t>(below(3));
    batch.Find("weight")->values<float>()[i] = static_cast<float>(below(4)) / 2;
    batch.Find("user")->values<int64_t>()[i] = static_cast<int64_t>(below(3));
    batch.Find("place")->values<int32_t>()[i] = static_cast<int32_t>(below(4));
    batch.Find("device")->values<int32_t>()[i] = device;
  }
  return batch;
}

// Those examples of a batch of which the feature has this value.
Batch Only(const Batch& batch, const std::string& feature, int32_t value) {
  std::vector<uint64_t> examples;
  const auto values = batch.Find(feature)->values<int32_t>();
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (values[i] == value) examples.push_back(i);
  }
  Batch some;
  some.Reset(kVisits, examples.size());
  some.range = {.epoch = 1, .begin = 0, .end = examples.size()};
  for (size_t c = 0; c < some.columns.size(); ++c) {
    const FeatureSpec& spec = kVisits.features[c];
    const uint64_t bytes = spec.size() * SizeOf(spec.dtype);
    const auto* const from =
        static_cast<const char*>(batch.columns[c].tensor().data);
    auto* const to = static_cast<char*>(some.columns[c].tensor().data);
    for (size_t i = 0; i < examples.size(); ++i) {
      std::memcpy(to + i * bytes, from + examples[i] * bytes, bytes);
    }
  }
  return some;
}

void ExpectSame(const Metrics& found, const Metrics& wanted,
                const std::string& of) {
  EXPECT_EQ(found.examples, wanted.examples) << of;
  const auto values = found.Values();
  const auto expected = wanted.Values();
  ASSERT_EQ(values.size(), expected.size()) << of;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].name, expected[i].name);
    if (std::isnan(expected[i].value)) {
      EXPECT_TRUE(std::isnan(values[i].value)) << values[i].name << " " << of;
    } else {
      EXPECT_NEAR(values[i].value, expected[i].value, 1e-5)
          << values[i].name << " " << of;
    }
  }
}

std::string NameOf(const Metrics& slice) {
  return slice.feature + "=" + std::to_string(slice.value);
}

TEST_F(SlicesTest, EachHasWhatAnEvaluationOfItsExamplesHas) {
  for (const char* layers : {kReadsX, kReadsThePlace}) {
    Made sliced(Sliced(layers, "'place', 'device'"));
    const Batch batch = SomeVisits(60);
    const auto all = sliced.Evaluate(batch);
    ASSERT_TRUE(all.ok()) << all.status();
    std::vector<std::string> names;
    for (const Metrics& slice : all->slices) {
      names.push_back(NameOf(slice));
      const auto alone = sliced.Evaluate(
          Only(batch, slice.feature, static_cast<int32_t>(slice.value)));
      ASSERT_TRUE(alone.ok()) << alone.status();
      // As a slice, whose means of nothing are no numbers.
      Metrics wanted = *alone;
      wanted.feature = slice.feature;
      ExpectSame(slice, wanted, NameOf(slice));
    }
    EXPECT_THAT(names,
                ElementsAre("device=0", "device=1", "device=2", "device=4",
                            "place=0", "place=1", "place=2", "place=3"))
        << layers;
  }
}

TEST_F(SlicesTest, WhereNoLabelCountsNothingIsANumber) {
  Made sliced(Sliced(kReadsX, "'device', 'place'"));
  const auto all = sliced.Evaluate(SomeVisits(60));
  ASSERT_TRUE(all.ok()) << all.status();
  const Metrics& fourth = all->slices[3];
  ASSERT_EQ(NameOf(fourth), "device=4");
  EXPECT_EQ(fourth.examples, 15u) << "a click counts";
  std::map<std::string, double> values;
  for (const NamedValue& value : fourth.Values()) {
    values[value.name] = value.value;
  }
  for (const char* name :
       {"stars/loss", "stars/accuracy", "stars/top_2", "stars/perplexity"}) {
    EXPECT_TRUE(std::isnan(values.at(name))) << name;
  }
  EXPECT_FALSE(std::isnan(values.at("click/auc")));
  EXPECT_FALSE(std::isnan(values.at("loss")));
}

TEST_F(SlicesTest, TheyChangeNothingOfTheWhole) {
  Made sliced(Sliced(kReadsThePlace, "'device', 'place'"));
  InputSpec without = kVisits;
  without.features.pop_back();  // The device.
  Made plain(Sliced(kReadsThePlace, ""), without);
  const Batch batch = SomeVisits(50);
  const auto found = sliced.Evaluate(batch);
  const auto wanted = plain.Evaluate(batch);
  ASSERT_TRUE(found.ok() && wanted.ok());
  EXPECT_TRUE(wanted->slices.empty());
  ExpectSame(*found, *wanted, "whole");
  EXPECT_EQ(sliced.model->metrics(), plain.model->metrics())
      << "what checkpoints are ranked by is of the whole";
}

TEST_F(SlicesTest, ThoseOfBatchesAddUpToTheWhole) {
  Made sliced(Sliced(kReadsX, "'device', 'place'"));
  const Batch batch = SomeVisits(43);
  const auto whole = sliced.Evaluate(batch);
  ASSERT_TRUE(whole.ok()) << whole.status();
  // Of one example each, too: most have not most of the slices.
  for (const uint64_t size : {1u, 6u}) {
    Metrics sum;
    for (uint64_t i = 0; i < batch.size(); i += size) {
      Batch part;
      part.CopyExamples(batch, i, std::min<uint64_t>(batch.size(), i + size));
      sum += *sliced.Evaluate(part);
    }
    ASSERT_EQ(sum.slices.size(), whole->slices.size());
    for (size_t s = 0; s < sum.slices.size(); ++s) {
      EXPECT_EQ(NameOf(sum.slices[s]), NameOf(whole->slices[s]));
      ExpectSame(sum.slices[s], whole->slices[s], NameOf(sum.slices[s]));
    }
  }
}

// slices_vectors.py found them for scores, which are what the model reads.
TEST_F(SlicesTest, TheyAreWhatTheDefinitionsSay) {
  std::ifstream file("compute/model/slices_vectors.json");
  const Json json = Json::parse(file);
  const auto scores = json["scores"].get<std::vector<float>>();
  const auto labels = json["labels"].get<std::vector<float>>();
  const auto devices = json["devices"].get<std::vector<int32_t>>();
  const auto weights = json["weights"].get<std::vector<float>>();
  InputSpec spec{
      {FeatureSpec{"x", DType::kFloat32, {1}},
       FeatureSpec{"label", DType::kFloat32, {}},
       FeatureSpec{"device", DType::kInt32, {}, json["values"].get<uint32_t>()},
       FeatureSpec{"weight", DType::kFloat32, {}}}};
  Batch batch;
  batch.Reset(spec, scores.size());
  batch.range = {.epoch = 1, .begin = 0, .end = scores.size()};
  const auto fill = [&](size_t c, const auto& from) {
    using T = typename std::decay_t<decltype(from)>::value_type;
    std::copy(from.begin(), from.end(), batch.columns[c].values<T>().begin());
  };
  fill(0, scores);
  fill(1, labels);
  fill(2, devices);
  fill(3, weights);
  for (const bool weighted : {false, true}) {
    Made made(std::string("input: 'x' layers { dense { units: 1 } } "
                          "loss: BINARY_CROSS_ENTROPY slices: 'device' "
                          "metrics: [ACCURACY, AUC, NORMALISED_ENTROPY, "
                          "CALIBRATION] ") +
                  (weighted ? "example_weight: 'weight'" : ""),
              spec);
    made.values[0] = {1};
    made.values[1] = {0};
    const auto found = made.Evaluate(batch);
    ASSERT_TRUE(found.ok()) << found.status();
    const Json& expected = json[weighted ? "weighted" : "plain"];
    ASSERT_EQ(found->slices.size(), expected.size());
    for (const Metrics& slice : found->slices) {
      const Json& wanted = expected.at(std::to_string(slice.value));
      EXPECT_EQ(slice.examples, wanted.at("examples").get<uint64_t>());
      for (const NamedValue& value : slice.Values()) {
        const Json& number = wanted.at(value.name);
        if (number.is_null()) {
          EXPECT_TRUE(std::isnan(value.value)) << value.name << NameOf(slice);
          continue;
        }
        const double known = number.get<double>();
        EXPECT_NEAR(value.value, known, 1e-6 * std::max(1.0, known))
            << value.name << " " << NameOf(slice) << weighted;
      }
    }
  }
}

TEST_F(SlicesTest, AValueThatIsOutOfRangeIsNamedButNotInTraining) {
  Made sliced(Sliced(kReadsX, "'device', 'place'"));
  Batch batch = SomeVisits(10);
  for (const int32_t value : {5, -1}) {
    batch.Find("device")->values<int32_t>()[6] = value;
    EXPECT_EQ(sliced.Evaluate(batch).status(),
              absl::DataLossError(
                  "example 6 of the batch: the feature 'device' has " +
                  std::to_string(value) +
                  "; model.slices needs a number from 0 to 4"));
  }
  const auto stepped = sliced.model->Step(sliced.views, batch, {.divisor = 10},
                                          sliced.spans, [](size_t) {});
  ASSERT_TRUE(stepped.ok()) << stepped.status();
  EXPECT_TRUE(stepped->slices.empty());
}

TEST_F(SlicesTest, APredictionNeedsNoneThatLayersDoNotRead) {
  Made sliced(Sliced(kReadsX, "'device', 'place'"));
  Batch batch;
  batch.Reset({{kVisits.features[0]}}, 4);
  for (float& value : batch.columns[0].values<float>()) value = 1;
  Batch predicted;
  EXPECT_EQ(sliced.model->Predict(sliced.views, batch, &predicted),
            absl::OkStatus());
  EXPECT_EQ(sliced.Evaluate(batch).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(OnlySlicedBy(Parsed(Sliced(kReadsThePlace, "'device', 'place'"))),
              ElementsAre("device"));
  const v1::ModelConfig config =
      Parsed("input: 'device' slices: ['device', 'a', 'b']");
  EXPECT_THAT(OnlySlicedBy(config), ElementsAre("a", "b"));
  const v1::ModelConfig other = Parsed("input: 'a'");
  EXPECT_THAT(OnlySlicedBy(config, &other), ElementsAre("b"));
}

TEST_F(SlicesTest, WhatCannotBeSlicedByIsRefusedInASentence) {
  InputSpec input = kVisits;
  input.features.push_back({"country", DType::kInt32, {}, 65});
  input.features.push_back({"hour", DType::kInt32, {}});
  input.features.push_back({"pair", DType::kInt32, {2}, 3});
  input.features.push_back({"list", DType::kInt32, {}, 3, /*ragged=*/true});
  const std::string needs =
      "; it needs one whole number for each example, and the input must say "
      "how many values there are: give it \"classes\"";
  const struct {
    std::string features;
    std::string sentence;
  } cases[] = {
      {"'phone'", "'phone'; the input has 'x', 'click', 'stars', 'weight', "},
      {"'device', 'stars'",
       "'stars', which is the label; name what is known of an example "
       "without it"},
      {"'click'", "'click', which is the label"},
      {"'x'", "'x', which is float32 of 3" + needs},
      {"'user'", "'user', which is int64 of a single value" + needs},
      {"'hour'", "'hour', which is int32 of a single value" + needs},
      {"'pair'", "'pair', which is int32 of 2" + needs},
      {"'list'", "'list', which is int32 of any number of values" + needs},
      {"'country'",
       "'country', which has 65 values; a slice is of one of at most 64"},
      {"'device', 'place', 'device'", "'device' twice"},
  };
  for (const auto& one : cases) {
    const auto plan = PlanNetwork(Parsed(Sliced(kReadsX, one.features)), input);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(plan.status().message()),
                HasSubstr("model.slices names the feature " + one.sentence));
  }
}

TEST_F(SlicesTest, MoreScoresThanAMessageHoldsAreRefused) {
  InputSpec input = kVisits;
  input.features.push_back({"many", DType::kFloat32, {41}});
  const std::string model =
      "input: 'x' label: 'many' loss: BINARY_CROSS_ENTROPY slices: 'device' "
      "layers { dense { units: 41 } } ";
  EXPECT_TRUE(PlanNetwork(Parsed(model + "metrics: ACCURACY"), input).ok());
  EXPECT_THAT(std::string(PlanNetwork(Parsed(model + "metrics: AUC"), input)
                              .status()
                              .message()),
              HasSubstr("model.slices keeps 41 scores of each example, for auc "
                        "and the like, 2 times; an evaluation keeps at most "
                        "80"));
}

TEST_F(SlicesTest, ALossOverABatchHasNoSlices) {
  const v1::ModelConfig config = Parsed(
      "input: 'x' label: 'user' loss: IN_BATCH_SOFTMAX slices: 'device' "
      "layers { dense { units: 4 } }");
  EXPECT_THAT(std::string(PlanNetwork(config, kVisits).status().message()),
              HasSubstr("in_batch_softmax compares an example with all of its "
                        "batch, which a slice does not have"));
}

TEST_F(SlicesTest, AsManyNumbersAsNobodyWantsAreRefused) {
  InputSpec input = kVisits;
  std::string features;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "f" + std::to_string(i);
    input.features.push_back({name, DType::kInt32, {}, 64});
    features += (i == 0 ? "'" : ", '") + name + "'";
  }
  const auto plan = PlanNetwork(Parsed(Sliced(kReadsX, features)), input);
  EXPECT_EQ(plan.status(),
            absl::InvalidArgumentError(
                "model.slices makes 256 slices, with 11 numbers each; an "
                "evaluation has at most 2048 of them: name fewer features, or "
                "count fewer metrics"));
}

}  // namespace
}  // namespace paramd
