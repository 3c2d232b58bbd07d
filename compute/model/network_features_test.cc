// Networks whose branches read features of their own.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint32_t kIds = 6;

class FeaturesTest : public OnTestDevice {
 protected:
  // Numbers, integers and keys, and what is to be said of them.
  static InputSpec ThreeFeatures() {
    return {{{"numbers", DType::kFloat32, {3}},
             {"ids", DType::kInt32, {2}, kIds},
             {"label", DType::kInt32, {}, 2},
             {"keys", DType::kInt64, {2}}}};
  }
  static InputSpec Without(const std::string& name) {
    InputSpec spec = ThreeFeatures();
    spec.features.erase(
        std::remove_if(
            spec.features.begin(), spec.features.end(),
            [&](const FeatureSpec& one) { return one.name == name; }),
        spec.features.end());
    return spec;
  }
  // Keys are as ids, spread.
  static int64_t KeyOf(int32_t id) { return 1000003 * int64_t{id} - 7; }
  static Batch BatchOf(const InputSpec& spec, uint64_t size, uint64_t seed) {
    RandomStream random(seed);
    Batch batch;
    batch.Reset(spec, size);
    batch.range = {.epoch = 1, .begin = 20 * seed, .end = 20 * seed + size};
    for (Column& column : batch.columns) {
      const auto draw = [&](uint32_t below) {
        return static_cast<int32_t>(random.Below(below));
      };
      if (column.spec().dtype == DType::kFloat32) {
        for (float& value : column.values<float>()) value = random.Uniform();
      } else if (column.spec().dtype == DType::kInt32) {
        for (int32_t& value : column.values<int32_t>()) {
          value = draw(column.spec().classes);
        }
      } else {
        for (int64_t& key : column.values<int64_t>()) key = KeyOf(draw(kIds));
      }
    }
    return batch;
  }
  static v1::ModelConfig ConfigOf(const std::string& layers) {
    v1::ModelConfig config;
    config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(layers, &config));
    return config;
  }
  // A DLRM; `table` says how integers are looked up.
  static std::string Dlrm(const std::string& integers,
                          const std::string& table) {
    return R"(
      layers { parallel {
        branches { input: "numbers"
                   layers { dense { units: 4 } } layers { tanh {} } }
        branches { input: ")" +
           integers + R"(" layers { embedding { width: 4 )" + table + R"( } }
                   layers { flatten {} } } } }
      layers { reshape { dims: 3 dims: 4 } }
      layers { parallel {
        branches { layers { select { count: 1 } } layers { flatten {} } }
        branches { layers { dot_interaction {} } } } }
      layers { dense { units: 2 } })";
  }
};

// A network with drawn weights, the same for one shape.
struct Drawn {
  Drawn(const v1::ModelConfig& config, const InputSpec& input)
      : model(*Network::Create(config, input, MakeTestDevice)) {
    RandomStream random(5);
    for (const v1::Variable& variable : model->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      values.emplace_back(size);
      for (float& value : values.back()) value = random.Uniform() - 0.5f;
      gradients.emplace_back(size, std::numeric_limits<float>::quiet_NaN());
    }
    for (const auto& one : values) weight_views.emplace_back(one);
    for (auto& one : gradients) gradient_views.push_back(absl::MakeSpan(one));
  }

  Metrics Step(const Batch& batch, RowNumbers rows = {},
               std::function<const Batch*()> next = nullptr) {
    return *model->Step(weight_views, batch,
                        {.divisor = 4, .rows = rows, .next = std::move(next)},
                        gradient_views, [](size_t) {});
  }

  std::unique_ptr<Network> model;
  std::vector<std::vector<float>> values, gradients;
  std::vector<absl::Span<const float>> weight_views;
  std::vector<absl::Span<float>> gradient_views;
};

void ExpectDifferences(Drawn* drawn, const Batch& batch) {
  drawn->Step(batch);
  constexpr float kStep = 1.0f / 256;
  for (size_t v = 0; v < drawn->values.size(); ++v) {
    for (size_t i = 0; i < drawn->values[v].size(); ++i) {
      float& value = drawn->values[v][i];
      const float before = value;
      const auto at = [&](float there) {
        value = there;
        return drawn->model->Evaluate(drawn->weight_views, batch)->loss_sum;
      };
      const double difference =
          (at(before + kStep) - at(before - kStep)) / (2 * kStep);
      value = before;
      EXPECT_NEAR(drawn->gradients[v][i], difference / 4, 2e-3)
          << drawn->model->variables()[v].name() << ", element " << i;
    }
  }
}

TEST_F(FeaturesTest, GradientsOfNumbersBesideATableMatchDifferences) {
  const InputSpec spec = Without("keys");
  Drawn drawn(ConfigOf(Dlrm("ids", "")), spec);
  ExpectDifferences(&drawn, BatchOf(spec, 5, 1));
}

// Where the first branch reads what comes before, where the last one does,
// where none does; in a residual, and in what is computed again.
TEST_F(FeaturesTest, GradientsReachTheLayersBeforeBranches) {
  const InputSpec spec = Without("keys");
  const std::string named =
      "branches { input: 'ids' layers { embedding { width: 2 } } "
      "layers { flatten {} } } ";
  const std::string before = "branches { layers { tanh {} } } ";
  const std::string also = "branches { layers { dense { units: 4 } } } ";
  for (const std::string& branches :
       {named + before + also, before + named + also, before + also + named}) {
    for (const char* const merge : {"CONCATENATE", "SUM"}) {
      Drawn drawn(ConfigOf("input: 'numbers' layers { dense { units: 4 } } "
                           "layers { recompute { layers { parallel { merge: " +
                           std::string(merge) + " " + branches +
                           " } } } } layers { dense { units: 2 } }"),
                  spec);
      ExpectDifferences(&drawn, BatchOf(spec, 3, 2));
    }
  }
  Drawn drawn(
      ConfigOf("input: 'numbers' layers { dense { units: 4 } } "
               "layers { residual { layers { parallel { merge: SUM " +
               named + named + " } } } } layers { dense { units: 2 } }"),
      spec);
  ExpectDifferences(&drawn, BatchOf(spec, 3, 3));
}

// What crosses ahead, and what is recorded, is of every feature.
TEST_F(FeaturesTest, StepsOneAfterAnotherGiveWhatEachGivesAlone) {
  const InputSpec spec = Without("keys");
  Drawn running(ConfigOf(Dlrm("ids", "")), spec);
  std::vector<Batch> batches;
  for (uint64_t b = 1; b <= 8; ++b) batches.push_back(BatchOf(spec, 6, b));
  for (size_t b = 0; b < batches.size(); ++b) {
    const Batch* const next =
        b + 1 < batches.size() ? &batches[b + 1] : nullptr;
    const Metrics metrics =
        running.Step(batches[b], {}, [next] { return next; });
    Drawn alone(ConfigOf(Dlrm("ids", "")), spec);
    EXPECT_EQ(alone.Step(batches[b]).loss_sum, metrics.loss_sum);
    EXPECT_EQ(alone.gradients, running.gradients) << "step " << b;
  }
}

// Ids of a whole table and keys of one with a capacity, in one model.
TEST_F(FeaturesTest, OneTableMayBeDenseAndAnotherOfKeys) {
  const auto config = [](const std::string& second,
                         const std::string& settings) {
    return ConfigOf(
        "layers { parallel { "
        "branches { input: 'ids' layers { embedding { width: 2 } } "
        "layers { flatten {} } } branches { input: '" +
        second + "' layers { embedding { width: 4 " + settings +
        " } } layers { flatten {} } } "
        "branches { input: 'numbers' } } } layers { dense { units: 2 } }");
  };
  const InputSpec spec = ThreeFeatures();
  const Batch batch = BatchOf(spec, 4, 7);
  Drawn keyed(config("keys", "sparse: true capacity: 1000"), spec);
  std::vector<std::vector<uint64_t>> found(1);
  ASSERT_TRUE(keyed.model->FindRows(batch, absl::MakeSpan(found)).ok());
  std::vector<uint64_t> rows = found[0];
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());

  // The same of numbered rows.
  InputSpec numbered = spec;
  numbered.features[3].dtype = DType::kInt32;
  numbered.features[3].classes = static_cast<uint32_t>(rows.size());
  Batch same;
  same.Reset(numbered, 4);
  same.range = batch.range;
  for (size_t c = 0; c < 3; ++c) same.columns[c] = batch.columns[c];
  for (size_t i = 0; i < 8; ++i) {
    const auto key =
        static_cast<uint64_t>(batch.columns[3].values<int64_t>()[i]);
    same.columns[3].values<int32_t>()[i] = static_cast<int32_t>(
        std::lower_bound(rows.begin(), rows.end(), MixKey(key)) - rows.begin());
  }
  Drawn whole(config("keys", ""), numbered);
  const Metrics expected = whole.Step(same);
  ASSERT_EQ(keyed.model->variables().size(), whole.values.size());
  EXPECT_FALSE(keyed.model->variables()[0].sparse());
  for (size_t v = 0; v < whole.values.size(); ++v) {
    keyed.weight_views[v] = whole.values[v];
    keyed.gradients[v].resize(whole.values[v].size());
    keyed.gradient_views[v] = absl::MakeSpan(keyed.gradients[v]);
  }
  const std::vector<absl::Span<const uint64_t>> views = {rows};
  EXPECT_EQ(keyed.Step(batch, views).loss_sum, expected.loss_sum);
  EXPECT_EQ(keyed.gradients, whole.gradients);
  EXPECT_EQ(
      keyed.model->EvaluateRows(keyed.weight_views, batch, views)->loss_sum,
      whole.model->Evaluate(whole.weight_views, same)->loss_sum);
}

TEST_F(FeaturesTest, IntegersThatATableHasNoRowForNameTheirFeature) {
  const InputSpec spec = Without("keys");
  Drawn drawn(ConfigOf(Dlrm("ids", "")), spec);
  Batch batch = BatchOf(spec, 2, 1);
  batch.Find("ids")->values<int32_t>()[3] = kIds;
  EXPECT_EQ(
      drawn.model->Evaluate(drawn.weight_views, batch).status(),
      absl::DataLossError(
          "example 1 of the batch: the feature 'ids' has 6; it must be from 0 "
          "to 5, or the embedding that reads it have more \"rows\""));
  InputSpec test = spec;
  test.features[1].classes = 16;
  EXPECT_THAT(std::string(drawn.model->CheckTestData(test).message()),
              HasSubstr("integers of 'ids' from 8 on"));
  batch.columns.erase(batch.columns.begin());
  EXPECT_EQ(drawn.model->Evaluate(drawn.weight_views, batch).status(),
            absl::InvalidArgumentError(
                "a batch lacks the feature 'numbers' of float32 that the "
                "model was made for"));
}

TEST_F(FeaturesTest, ABranchThatReadsALabelIsRefused) {
  const auto refusal = [](const v1::ModelConfig& config) {
    const InputSpec spec = {{{"numbers", DType::kFloat32, {3}},
                             {"click", DType::kFloat32, {1}},
                             {"buy", DType::kFloat32, {1}}}};
    return std::string(PlanNetwork(config, spec).status().message());
  };
  const auto model = [](const std::string& said) {
    v1::ModelConfig config = ConfigOf(said + R"(
      layers { parallel { branches { input: "numbers" }
                          branches { input: "buy" } } }
      layers { residual { layers { parallel { branches { input: "click" } } } } }
      layers { dense { units: 1 } })");
    config.set_loss(v1::MEAN_SQUARED_ERROR);
    return config;
  };
  EXPECT_EQ(refusal(model("label: 'click'")),
            "a branch reads the feature 'click', which is the label: the model "
            "would learn to copy it; name another feature as the branch's "
            "\"input\" or, of an autoencoder, this one as the model's, too");
  EXPECT_THAT(
      refusal(model("label: 'buy'")),
      HasSubstr("a branch reads the feature 'buy', which is the label"));
  // An autoencoder says that it reads what it is compared with.
  EXPECT_THAT(refusal(model("label: 'click' input: 'click'")),
              Not(HasSubstr("which is the label")));
  v1::ModelConfig tasks = model("");
  tasks.clear_loss();
  for (const std::string label : {"numbers", "buy"}) {
    v1::ModelConfig::Output* const output = tasks.add_outputs();
    output->set_name("of_" + label);
    output->set_label(label);
    output->set_loss(v1::MEAN_SQUARED_ERROR);
  }
  EXPECT_THAT(refusal(tasks),
              HasSubstr("a branch reads the feature 'numbers', which is the "
                        "label of the output 'of_numbers': "));
}

TEST_F(FeaturesTest, BranchesThatReadNoFeatureOrAnotherAreRefused) {
  const auto refusal = [](const std::string& layers, const InputSpec& spec) {
    const auto model = Network::Create(ConfigOf(layers), spec, MakeTestDevice);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(model.status().message());
  };
  const auto branches = [](const std::string& more) {
    return "layers { parallel { branches { input: 'numbers' layers { dense { "
           "units: 2 } } } " +
           more + " } } layers { dense { units: 2 } }";
  };
  const InputSpec spec = Without("keys");
  EXPECT_EQ(refusal(Dlrm("isd", ""), spec),
            "the model reads the feature 'isd'; the input has 'numbers', "
            "'ids', 'label'");
  EXPECT_EQ(refusal(Dlrm("numbers", ""), spec),
            "embedding layer 'embedding_1' needs integers below a number that "
            "the input states; it gets 3");
  EXPECT_EQ(refusal(branches("branches { input: 'ids' layers { dense { "
                             "units: 2 } } }"),
                    spec),
            "dense layer 'dense_2' needs numbers; it gets integers of 2 of the "
            "feature 'ids': put \"embedding\" before \"dense\"");
  EXPECT_EQ(refusal(branches("branches { input: 'ids' }"), spec),
            "branch 2 of parallel layer 'parallel_1' gives integers: put "
            "\"embedding\" in it");
  EXPECT_EQ(refusal(branches("branches { input: 'numbers' }"), spec),
            "no layer reads the feature 'ids': name it as the \"input\" of a "
            "branch, or leave it out of the input");
  EXPECT_EQ(refusal("input: 'ids' " + branches("branches { input: 'numbers' }"),
                    spec),
            "no layer reads the feature 'ids': name it as the \"input\" of a "
            "branch, or leave it out of the input");
  const std::string unnamed =
      "the model reads one feature; the input has 'numbers', 'ids', 'label': "
      "name one of them by \"input\", or one in each branch";
  EXPECT_EQ(refusal(branches("branches {}"), spec), unnamed);
  EXPECT_EQ(refusal("layers { dense { units: 2 } }" + branches(""), spec),
            unnamed);
  EXPECT_EQ(
      refusal("input: 'numbers' layers { dense { units: 4 } } " +
                  branches("branches { input: 'ids' layers { embedding { "
                           "width: 2 } } layers { flatten {} } }"),
              spec),
      "parallel layer 'parallel_1' does not read what 'dense_1' gives, for "
      "each of its branches names a feature: leave out the \"input\" of one, "
      "or the layers before it");
  InputSpec bytes = spec;
  bytes.features[0].dtype = DType::kUInt8;
  EXPECT_THAT(refusal(Dlrm("ids", ""), bytes),
              HasSubstr("the model reads the feature 'numbers' of uint8"));
  const std::string shared =
      "branches { input: 'ids' layers { embedding { width: 4 name: 't' } } "
      "layers { flatten {} } } ";
  const std::string sparse =
      "branches { input: 'ids' layers { embedding { width: 4 name: 't' "
      "sparse: true } } layers { flatten {} } } ";
  EXPECT_EQ(refusal(branches(shared + sparse), spec),
            "the shared variable 't/table' has one value of sparse in one "
            "layer and another in another");
}

TEST_F(FeaturesTest, SparseTablesOfRowsAndOfKeysInOneModelAreRefused) {
  EXPECT_EQ(
      Network::Create(
          ConfigOf("layers { parallel { branches { input: 'ids' layers { "
                   "embedding { width: 2 sparse: true } } layers { flatten {} "
                   "} } branches { input: 'keys' layers { embedding { width: 2 "
                   "sparse: true capacity: 9 } } layers { flatten {} } } } } "
                   "layers { dense { units: 2 } }"),
          Without("numbers"), MakeTestDevice)
          .status(),
      absl::InvalidArgumentError(
          "embedding layer 'embedding_2' has a capacity, and another sparse "
          "one has rows; either all sparse ones of a model have a capacity, or "
          "none"));
}

// A branch may name the only feature that there is.
TEST_F(FeaturesTest, OneFeatureMayBeNamed) {
  const InputSpec spec{
      {{"numbers", DType::kFloat32, {3}}, {"label", DType::kInt32, {}, 2}}};
  const auto layers = [](const std::string& input) {
    return ConfigOf("layers { parallel { branches { " + input +
                    " layers { dense { units: 4 } } } branches { " + input +
                    " } } } layers { dense { units: 2 } }");
  };
  Drawn named(layers("input: 'numbers'"), spec);
  Drawn unnamed(layers(""), spec);
  const Batch batch = BatchOf(spec, 4, 1);
  EXPECT_EQ(named.Step(batch).loss_sum, unnamed.Step(batch).loss_sum);
  EXPECT_EQ(named.gradients, unnamed.gradients);
}

TEST_F(FeaturesTest, FeaturesThatLayersNameAreKnown) {
  v1::ModelConfig config = ConfigOf(R"(
    layers { parallel {
      branches { input: "keys" }
      branches { layers { residual { layers { parallel {
        branches { input: "numbers" } branches { input: "keys" } } } } } } } })");
  EXPECT_THAT(FeaturesNamedBy(config), ElementsAre("keys", "numbers"));
  config.set_input("ids");
  *config.add_outputs()->add_layers() = ConfigOf(R"(
    layers { mixture { experts { input: "ages" } } })")
                                            .layers(0);
  EXPECT_THAT(FeaturesNamedBy(config),
              ElementsAre("ids", "keys", "numbers", "ages"));
  EXPECT_THAT(FeaturesNamedBy(ConfigOf("layers { dense { units: 2 } }")),
              ElementsAre());
}

// ---- weights of examples ----------------------------------------------------

constexpr char kWeighted[] = R"(
  input: "numbers" layers { dense { units: 2 } } example_weight: "weight")";

InputSpec WithWeights(const FeatureSpec& weight) {
  return {{{"numbers", DType::kFloat32, {3}},
           {"label", DType::kInt32, {}, 2},
           weight}};
}

TEST_F(FeaturesTest, AWeightIsAFeatureThatNoLayerReads) {
  const InputSpec spec = WithWeights({"weight", DType::kFloat32, {1}});
  v1::ModelConfig config = ConfigOf(kWeighted);
  config.clear_input();
  Drawn drawn(config, spec);
  Batch batch = BatchOf(spec, 4, 1);
  const auto weights = batch.Find("weight")->values<float>();
  std::fill(weights.begin(), weights.end(), 0.0f);
  EXPECT_EQ(drawn.Step(batch).loss_sum, 0);
  for (const auto& gradient : drawn.gradients) {
    EXPECT_THAT(gradient, ::testing::Each(0));
  }
  weights[2] = 1;
  const Metrics metrics = drawn.Step(batch);
  EXPECT_EQ(metrics.examples, 4u);
  EXPECT_GT(metrics.loss_sum, 0);
}

TEST_F(FeaturesTest, APredictionNeedsNoWeights) {
  const InputSpec spec = WithWeights({"weight", DType::kFloat32, {}});
  Drawn drawn(ConfigOf(kWeighted), spec);
  Batch batch = BatchOf({{spec.features[0]}}, 4, 1);
  Batch out;
  EXPECT_TRUE(drawn.model->Predict(drawn.weight_views, batch, &out).ok());
  std::vector<std::vector<uint64_t>> rows;
  EXPECT_TRUE(drawn.model->FindRows(batch, absl::MakeSpan(rows)).ok());
}

TEST_F(FeaturesTest, AWeightThatIsNoWeightIsNamedByExample) {
  const InputSpec spec = WithWeights({"weight", DType::kFloat32, {}});
  Drawn drawn(ConfigOf(kWeighted), spec);
  for (const auto& [weight, text] :
       {std::pair(-0.5f, "-0.5"), std::pair(std::nanf(""), "nan"),
        std::pair(std::numeric_limits<float>::infinity(), "inf")}) {
    Batch batch = BatchOf(spec, 4, 1);
    batch.Find("weight")->values<float>()[2] = weight;
    const auto stepped =
        drawn.model->Step(drawn.weight_views, batch, {.divisor = 4},
                          drawn.gradient_views, [](size_t) {});
    EXPECT_TRUE(absl::IsDataLoss(stepped.status())) << stepped.status();
    EXPECT_THAT(
        std::string(stepped.status().message()),
        HasSubstr(absl::StrCat(": the weight 'weight' is ", text,
                               "; it must be a finite number from 0 on")));
    EXPECT_EQ(drawn.model->Evaluate(drawn.weight_views, batch).status(),
              stepped.status());
    EXPECT_EQ(drawn.model->CheckExamples(batch), stepped.status());
  }
}

TEST_F(FeaturesTest, WhatCantBeAWeightIsRefused) {
  const auto refused = [](const FeatureSpec& weight) {
    return std::string(Network::Create(ConfigOf(kWeighted), WithWeights(weight),
                                       MakeTestDevice)
                           .status()
                           .message());
  };
  EXPECT_EQ(refused({"other", DType::kFloat32, {}}),
            "example_weight is the feature 'weight'; the input has 'numbers', "
            "'label', 'other': csv.weight makes one of a column");
  EXPECT_EQ(
      refused({"weight", DType::kInt32, {}, 5}),
      "example_weight needs one float32 for each example; 'weight' is "
      "int32 of a single value: the stage \"cast\" makes a float32 of it");
  EXPECT_EQ(refused({"weight", DType::kFloat32, {2}}),
            "example_weight needs one float32 for each example; 'weight' is "
            "float32 of 2");
}

}  // namespace
}  // namespace paramd
