// What a PJRT plugin computes, against the processor's own device. The plugin
// is the library that PARAMD_PJRT_PLUGIN names; without one these tests are
// skipped.
#include "compute/compiled/compiled_network.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

// Of the largest value of a gradient, and of a metric.
constexpr double kTolerance = 1e-4;

FeatureSpec Numbers(const std::string& name, Dims dims) {
  return {.name = name, .dims = std::move(dims)};
}

FeatureSpec Integers(const std::string& name, Dims dims, uint32_t below) {
  return {.name = name,
          .dtype = DType::kInt32,
          .dims = std::move(dims),
          .classes = below};
}

// Lists end with padding, the first example's at once; each begins with a place
// of its own.
void Shorten(Column* list, RandomStream* random) {
  const uint64_t places = list->spec().dims[0];
  const auto values = list->values<int32_t>();
  for (uint64_t i = 0; i < values.size(); i += places) {
    const uint64_t used = i == 0 ? 1 : 1 + random->Below(places);
    std::fill_n(values.begin() + i + used, places - used, -1);
  }
}

// Numbers or integers at random. Numbers are from 0 to 1, as some labels must
// be.
Batch RandomBatch(const InputSpec& spec, uint64_t size, uint64_t seed) {
  RandomStream random(seed);
  Batch batch;
  batch.Reset(spec, size);
  batch.range = {.epoch = 3, .begin = 100, .end = 100 + size};
  for (Column& column : batch.columns) {
    if (column.spec().dtype == DType::kInt32) {
      for (int32_t& value : column.values<int32_t>()) {
        value = static_cast<int32_t>(random.Below(column.spec().classes));
      }
      if (column.spec().name == "list") Shorten(&column, &random);
      continue;
    }
    for (float& value : column.values<float>()) value = random.Uniform();
  }
  return batch;
}

// A model with its values, the same for the same variables.
struct Trained {
  explicit Trained(std::unique_ptr<TrainedModel> made)
      : model(std::move(made)) {
    RandomStream random(5);
    for (const v1::Variable& variable : model->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      values.emplace_back(size);
      const bool is_variance = variable.untrained();
      for (float& value : values.back()) {
        value = random.Uniform() - (is_variance ? -0.5f : 0.5f);
      }
      gradients.emplace_back(size, std::numeric_limits<float>::quiet_NaN());
    }
    for (auto& one : values) weight_views.emplace_back(one);
    for (auto& one : gradients) {
      gradient_views.push_back(absl::MakeSpan(one));
    }
  }

  absl::StatusOr<Metrics> Step(const Batch& batch, double divisor) {
    ready.clear();
    return model->Step(weight_views, batch, {.divisor = divisor, .seed = 11},
                       gradient_views,
                       [this](size_t variable) { ready.push_back(variable); });
  }

  std::unique_ptr<TrainedModel> model;
  std::vector<std::vector<float>> values, gradients;
  std::vector<size_t> ready;
  std::vector<absl::Span<const float>> weight_views;
  std::vector<absl::Span<float>> gradient_views;
};

void ExpectClose(absl::Span<const float> got, absl::Span<const float> wanted,
                 const std::string& what, double tolerance = kTolerance) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 1e-2;
  for (const float value : wanted) {
    largest = std::max<double>(largest, std::abs(value));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], tolerance * largest)
        << what << ", element " << i;
  }
}

void ExpectClose(const Metrics& got, const Metrics& wanted) {
  EXPECT_EQ(got.examples, wanted.examples);
  EXPECT_EQ(got.labels, wanted.labels);
  EXPECT_EQ(got.correct, wanted.correct);
  const auto got_values = got.Values();
  const auto wanted_values = wanted.Values();
  ASSERT_EQ(got_values.size(), wanted_values.size());
  for (size_t i = 0; i < got_values.size(); ++i) {
    if (std::isnan(wanted_values[i].value)) continue;  // No scores in training.
    EXPECT_NEAR(got_values[i].value, wanted_values[i].value,
                kTolerance * std::max(1.0, std::abs(wanted_values[i].value)))
        << wanted_values[i].name;
  }
}

struct Case {
  std::string name;
  std::string model;
  InputSpec input;
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name;
}

// What a loader of job files fills in.
void FillIn(google::protobuf::RepeatedPtrField<v1::Layer>* layers) {
  for (v1::Layer& layer : *layers) {
    if (layer.has_conv2d()) {
      v1::Layer::Conv2d& conv = *layer.mutable_conv2d();
      if (!conv.has_stride()) conv.set_stride(1);
      if (!conv.has_groups()) conv.set_groups(1);
      if (!conv.has_bias()) conv.set_bias(true);
      if (!conv.has_padding()) conv.set_padding(v1::Layer::SAME);
    }
    if (layer.has_batch_norm()) layer.mutable_batch_norm()->set_epsilon(0.01);
    if (layer.has_layer_norm()) layer.mutable_layer_norm()->set_epsilon(0.01);
    if (layer.has_residual()) {
      FillIn(layer.mutable_residual()->mutable_layers());
      FillIn(layer.mutable_residual()->mutable_shortcut());
    }
    if (layer.has_recompute()) {
      FillIn(layer.mutable_recompute()->mutable_layers());
    }
    if (!layer.has_parallel()) continue;
    for (v1::Layer::Branch& branch :
         *layer.mutable_parallel()->mutable_branches()) {
      FillIn(branch.mutable_layers());
    }
  }
}

v1::ModelConfig Parse(const std::string& text) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  FillIn(config.mutable_layers());
  return config;
}

// The device that tests use; null where there is no plugin.
std::shared_ptr<PjrtClient> TestClient() {
  const char* const plugin = std::getenv("PARAMD_PJRT_PLUGIN");
  if (plugin == nullptr || *plugin == '\0') return nullptr;
  static const auto* const client =
      new auto(PjrtClient::OfProcess(plugin, /*devices=*/2));
  EXPECT_TRUE(client->ok()) << client->status();
  return client->ok() ? **client : nullptr;
}

std::unique_ptr<TrainedModel> Compiled(const Case& one, size_t device = 0) {
  auto made = CompiledNetwork::Create(Parse(one.model), one.input, TestClient(),
                                      device);
  return *std::move(made);
}

std::unique_ptr<TrainedModel> OnProcessor(const Case& one) {
  auto made = Network::Create(Parse(one.model), one.input);
  return *std::move(made);
}

// Steps, evaluations and predictions.
void ExpectTheProcessors(const Case& one) {
  Trained got(Compiled(one));
  Trained wanted(OnProcessor(one));
  for (const uint64_t size : {6, 1}) {
    Batch batch = RandomBatch(one.input, size, size);
    if (size == 1) batch.offsets = {102};
    const double divisor = 2.5 * static_cast<double>(size);
    const auto got_metrics = got.Step(batch, divisor);
    ASSERT_TRUE(got_metrics.ok()) << got_metrics.status();
    ExpectClose(*got_metrics, *wanted.Step(batch, divisor));
    for (size_t v = 0; v < got.gradients.size(); ++v) {
      ExpectClose(got.gradients[v], wanted.gradients[v],
                  got.model->variables()[v].name());
    }
    EXPECT_EQ(got.ready.size(), got.gradients.size());

    const auto evaluated = got.model->Evaluate(got.weight_views, batch);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    ExpectClose(*evaluated,
                *wanted.model->Evaluate(wanted.weight_views, batch));
    Batch predicted, wanted_prediction;
    ASSERT_TRUE(got.model->Predict(got.weight_views, batch, &predicted).ok());
    ASSERT_TRUE(
        wanted.model->Predict(wanted.weight_views, batch, &wanted_prediction)
            .ok());
    ASSERT_EQ(predicted.columns.size(), wanted_prediction.columns.size());
    for (size_t c = 0; c < predicted.columns.size(); ++c) {
      ExpectClose(predicted.columns[c].values<float>(),
                  wanted_prediction.columns[c].values<float>(),
                  predicted.columns[c].name());
    }
  }
}

const InputSpec kImages = LabelledImages({7, 6, 4}, 5);
const InputSpec kTokens{
    {Integers("tokens", {6}, 11), Integers("label", {6}, 9)}};
const InputSpec kFields{{Numbers("fields", {4, 3}), Integers("label", {}, 3)}};
// The first a place of its own, the others a list with padding.
const InputSpec kList{{Integers("list", {7}, 6), Integers("label", {}, 3)}};
const InputSpec kSeveral{{Integers("ids", {3}, 6), Numbers("numbers", {5}),
                          Integers("label", {}, 3), Integers("list", {4}, 9)}};
const InputSpec kTargets{{Numbers("x", {5}), Numbers("label", {3})}};
const InputSpec kTasks{{Numbers("x", {5}), Numbers("click", {}),
                        Integers("stars", {}, 3), Numbers("weight", {})}};

// Layers between images and five classes.
Case OnImages(const std::string& name, const std::string& layers) {
  return {name,
          layers +
              " layers { flatten {} } layers { dense { units: 5 } } "
              "loss: SOFTMAX_CROSS_ENTROPY",
          kImages};
}

Case OnTokens(const std::string& name, const std::string& layers,
              const std::string& rest = "loss: SOFTMAX_CROSS_ENTROPY") {
  return {name,
          "layers { embedding { width: 8 } } " + layers +
              " layers { dense { units: 9 } } " + rest,
          kTokens};
}

Case OnTargets(const std::string& name, const std::string& loss) {
  return {name,
          "layers { dense { units: 4 } } layers { tanh {} } "
          "layers { dense { units: 3 } } loss: " +
              loss,
          kTargets};
}

// Two tables: of the first integer, and of the others after it.
Case OnList(const std::string& name, const std::string& list,
            const std::string& table = "width: 4") {
  return {name,
          "layers { parallel { "
          "branches { layers { select { begin: 0 count: 1 } } "
          "layers { embedding { name: 'one' " +
              table +
              " } } "
              "layers { flatten {} } } "
              "branches { layers { select { begin: 1 } } "
              "layers { embedding { name: 'list' padding: true " +
              table + " } } " + list +
              " } } } layers { dense { units: 3 } } "
              "loss: SOFTMAX_CROSS_ENTROPY",
          kList};
}

Case OnFields(const std::string& name, const std::string& layers) {
  return {name,
          layers + " layers { dense { units: 3 } } loss: SOFTMAX_CROSS_ENTROPY",
          kFields};
}

std::vector<Case> ElementwiseCases() {
  return {
      OnImages("Dense", "layers { flatten {} } layers { dense { units: 7 } }"),
      OnImages("Relu", "layers { dense { units: 7 } } layers { relu {} }"),
      OnImages("Gelu", "layers { dense { units: 7 } } layers { gelu {} }"),
      OnImages("Tanh", "layers { dense { units: 7 } } layers { tanh {} }"),
      OnImages("Sigmoid",
               "layers { dense { units: 7 } } layers { sigmoid {} }"),
      OnImages("Reshape",
               "layers { reshape { dims: 21 dims: 8 } } "
               "layers { dense { units: 3 } }"),
      OnImages("Shared",
               "layers { dense { units: 4 name: 'twice' } } "
               "layers { tanh {} } "
               "layers { dense { units: 4 name: 'twice' } }")};
}

std::vector<Case> ImagesCases() {
  return {
      OnImages("Same", "layers { conv2d { filters: 6 kernel: 3 } }"),
      OnImages("SameByTwo",
               "layers { conv2d { filters: 6 kernel: 3 stride: 2 } }"),
      OnImages("SameEven",
               "layers { conv2d { filters: 6 kernel: 4 stride: 3 } }"),
      OnImages("Valid",
               "layers { conv2d { filters: 6 kernel: 3 padding: VALID } }"),
      OnImages("ValidByTwo",
               "layers { conv2d { filters: 6 kernel: 2 "
               "stride: 2 padding: VALID bias: false } }"),
      OnImages("OneByThree",
               "layers { conv2d { filters: 6 kernel: 1 "
               "stride: 3 padding: VALID } }"),
      OnImages("Groups",
               "layers { conv2d { filters: 6 kernel: 3 groups: 2 "
               "stride: 2 } }"),
      OnImages("Depthwise",
               "layers { conv2d { filters: 8 kernel: 3 "
               "groups: 4 } }"),
      OnImages("TwoConvolutions",
               "layers { conv2d { filters: 3 kernel: 3 stride: 2 } } "
               "layers { relu {} } "
               "layers { conv2d { filters: 4 kernel: 2 } }"),
      OnImages("MaxPool",
               "layers { conv2d { filters: 3 kernel: 1 } } "
               "layers { max_pool { size: 2 } }"),
      OnImages("MaxPoolOfTies",
               "layers { conv2d { filters: 3 kernel: 3 } } "
               "layers { relu {} } layers { max_pool "
               "{ size: 3 stride: 2 padding: SAME } }"),
      OnImages("AveragePool",
               "layers { conv2d { filters: 3 kernel: 1 } } layers { "
               "average_pool { size: 3 stride: 2 padding: SAME } }"),
      OnImages("AveragePoolInside",
               "layers { conv2d { filters: 3 kernel: 1 } } layers { "
               "average_pool { size: 2 stride: 3 padding: VALID } }"),
      OnImages("GlobalMaxPool",
               "layers { conv2d { filters: 3 kernel: 3 } } layers { relu {} } "
               "layers { global_max_pool {} }"),
      OnImages("GlobalAveragePool",
               "layers { conv2d { filters: 3 kernel: 1 } } "
               "layers { global_average_pool {} }"),
      OnImages("GlobalSumPool",
               "layers { conv2d { filters: 3 kernel: 1 } } "
               "layers { global_sum_pool {} }")};
}

std::vector<Case> NormsCases() {
  return {OnImages("BatchNorm",
                   "layers { conv2d { filters: 3 kernel: 1 } } "
                   "layers { batch_norm { momentum: 0.9 } } "
                   "layers { relu {} }"),
          OnImages("BatchNormTwice",
                   "layers { batch_norm { name: 'n' } } layers { tanh {} } "
                   "layers { batch_norm { name: 'n' } }"),
          OnImages("LayerNorm",
                   "layers { dense { units: 6 } } layers { layer_norm {} }"),
          OnImages("Dropout",
                   "layers { dense { units: 5 } } "
                   "layers { flatten {} } layers { dense { units: 9 } "
                   "} layers { dropout { rate: 0.4 } }"),
          OnImages("DropoutTwice",
                   "layers { dropout { rate: 0.1 } } "
                   "layers { dropout { rate: 0.5 } }")};
}

std::vector<Case> HoldersCases() {
  return {
      OnImages("Residual",
               "layers { residual { layers { dense { units: 4 } } "
               "layers { relu {} } } }"),
      OnImages("ResidualWithShortcut",
               "layers { residual { drop_rate: 0.5 "
               "layers { conv2d { filters: 6 kernel: 3 stride: 2 } } "
               "layers { batch_norm {} } "
               "shortcut { conv2d { filters: 6 kernel: 1 stride: 2 } } } }"),
      OnImages("Recompute",
               "layers { recompute { layers { conv2d { filters: 3 kernel: 3 } "
               "} layers { batch_norm {} } layers { recompute { layers { "
               "relu {} } layers { dropout { rate: 0.3 } } } } } }"),
      OnImages("ParallelSum",
               "layers { parallel { merge: SUM "
               "branches { layers { dense { units: 4 } } } "
               "branches { layers { batch_norm {} } } branches {} } }"),
      OnImages("ParallelConcatenated",
               "layers { parallel { branches { layers { dense { units: 3 } } "
               "layers { relu {} } } branches { layers { "
               "conv2d { filters: 2 kernel: 2 stride: 2 } } } } }")};
}

std::vector<Case> SequencesCases() {
  return {
      OnTokens("Embedding", ""),
      OnTokens("PositionalEmbedding", "layers { positional_embedding {} }"),
      OnTokens("Attention", "layers { attention { heads: 2 } }"),
      OnTokens("CausalAttention",
               "layers { attention { heads: 4 causal: true } }"),
      OnTokens("Transformer",
               "layers { positional_embedding {} } layers { residual { "
               "layers { layer_norm {} } layers { attention { heads: 2 "
               "causal: true } } layers { dropout { rate: 0.2 } } } } "
               "layers { residual { layers { layer_norm {} } layers { dense "
               "{ units: 16 } } layers { gelu {} } layers { dense { units: 8 "
               "} } } } layers { layer_norm {} }"),
      OnTokens("IgnoredLabels", "",
               "loss: SOFTMAX_CROSS_ENTROPY ignore_label: 4 "
               "label_smoothing: 0.1 metrics: PERPLEXITY metrics: TOP_K "
               "metrics: ACCURACY")};
}

std::vector<Case> RecommendersCases() {
  return {
      {"SeveralFeatures",
       "layers { parallel { "
       "branches { input: 'numbers' layers { dense { units: 4 } } } "
       "branches { input: 'ids' layers { embedding { width: 4 } } "
       "layers { flatten {} } } "
       "branches { input: 'list' layers { embedding { width: 4 padding: true "
       "} } layers { bag_pool { combine: SUM } } } "
       "branches { input: 'ids' layers { select { begin: 1 count: 1 } } "
       "layers { embedding { width: 4 } } layers { flatten {} } } } } "
       "layers { reshape { dims: 6 dims: 4 } } layers { dot_interaction {} } "
       "layers { parallel { branches {} branches { input: 'numbers' } } } "
       "layers { dense { units: 3 } } loss: SOFTMAX_CROSS_ENTROPY",
       kSeveral},
      OnFields("DotInteraction",
               "layers { dense { units: 5 } } "
               "layers { dot_interaction {} }"),
      OnFields("FactorizationMachine",
               "layers { dense { units: 5 } } "
               "layers { factorization_machine {} }"),
      OnFields("Cross",
               "layers { flatten {} } layers { cross { layers: 3 } "
               "}"),
      OnFields("Select",
               "layers { select { begin: 1 count: 2 } } "
               "layers { flatten {} }"),
      OnList("BagSum", "layers { bag_pool { combine: SUM } }"),
      OnList("BagMean", "layers { bag_pool { combine: MEAN } }"),
      OnList("BagSqrtN", "layers { bag_pool { combine: SQRT_N } }"),
      OnList("BagMax", "layers { bag_pool { combine: MAX } }"),
      OnList("AttentionPool",
             "layers { attention_pool { units: 3 } } "
             "layers { flatten {} }")};
}

std::vector<Case> LossesCases() {
  return {OnTargets("Binary",
                    "BINARY_CROSS_ENTROPY metrics: AUC "
                    "metrics: ACCURACY"),
          OnTargets("MeanSquaredError", "MEAN_SQUARED_ERROR metrics: MSE"),
          OnTargets("Divergence", "KL_DIVERGENCE"),
          Case{"ClassWeights",
               "layers { flatten {} } layers { dense { units: 3 } } "
               "loss: SOFTMAX_CROSS_ENTROPY class_weights: 0.5 "
               "class_weights: 2 class_weights: 0 label_smoothing: 0.2",
               kFields},
          Case{"ExampleWeights",
               "input: 'x' example_weight: 'weight' label: 'stars' "
               "layers { dense { units: 3 } } loss: SOFTMAX_CROSS_ENTROPY",
               {{kTasks.features[0], kTasks.features[2], kTasks.features[3]}}},
          Case{"Outputs",
               "input: 'x' layers { dense { units: 6 } } layers { tanh {} } "
               "layers { mixture { gates: 2 "
               "experts { layers { dense { units: 4 } } } "
               "experts { layers { dense { units: 4 } } } } } "
               "outputs { name: 'click' label: 'click' "
               "example_weight: 'weight' loss: BINARY_CROSS_ENTROPY "
               "metrics: ACCURACY layers { select { begin: 0 count: 1 } } "
               "layers { flatten {} } layers { dense { units: 1 } } } "
               "outputs { name: 'stars' label: 'stars' weight: 0.5 "
               "loss: SOFTMAX_CROSS_ENTROPY layers { flatten {} } "
               "layers { dense { units: 3 } } }",
               kTasks}};
}

std::vector<Case> Cases() {
  std::vector<Case> all;
  for (const auto& some :
       {ElementwiseCases(), ImagesCases(), NormsCases(), HoldersCases(),
        SequencesCases(), RecommendersCases(), LossesCases()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

class EachModelTest : public ::testing::TestWithParam<Case> {};

TEST_P(EachModelTest, IsWrittenWithAGradientOfEachVariable) {
  const auto plan = PlanNetwork(Parse(GetParam().model), GetParam().input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const NetworkProgram program =
      *WriteProgram(**plan, {.examples = 6, .training = true});
  const size_t variables = (*plan)->variables.size();
  ASSERT_EQ(program.results.size(), variables + 1);
  for (size_t v = 0; v < variables; ++v) {
    EXPECT_EQ(program.results[variables - v].text(),
              program.parameters[v].text())
        << (*plan)->variables[v].name();
  }
  EXPECT_EQ(WriteProgram(**plan, {.examples = 6})->results.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Models, EachModelTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// On the plugin, if there is one.
class CompiledNetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (TestClient() == nullptr) {
      GTEST_SKIP() << "PARAMD_PJRT_PLUGIN names no PJRT plugin";
    }
  }
};

TEST_F(CompiledNetworkTest, EachModelsResultsAreTheProcessors) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    ExpectTheProcessors(one);
  }
}

TEST_F(CompiledNetworkTest, GradientsOfBf16AreTheProcessors) {
  std::vector<Case> cases = ImagesCases();
  for (const Case& one : SequencesCases()) cases.push_back(one);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Trained got(*CompiledNetwork::Create(Parse(one.model), one.input,
                                         TestClient(), /*device=*/0,
                                         ComputeFormat::kBf16));
    Trained wanted(*Network::Create(Parse(one.model), one.input, [] {
      auto device = std::make_unique<CpuDevice>();
      device->SetComputeFormat(ComputeFormat::kBf16);
      return device;
    }));
    const Batch batch = RandomBatch(one.input, 6, 6);
    const auto metrics = got.Step(batch, 6);
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    ASSERT_TRUE(wanted.Step(batch, 6).ok());
    for (size_t v = 0; v < got.gradients.size(); ++v) {
      ExpectClose(got.gradients[v], wanted.gradients[v],
                  got.model->variables()[v].name(), /*tolerance=*/2e-2);
    }
  }
}

// Of each sparse variable the rows that the batch reads, ascending.
std::vector<std::vector<uint64_t>> RowsOf(const TrainedModel& model,
                                          const Batch& batch) {
  std::vector<std::vector<uint64_t>> found(
      std::count_if(model.variables().begin(), model.variables().end(),
                    [](const v1::Variable& one) { return one.sparse(); }));
  EXPECT_TRUE(model.FindRows(batch, absl::MakeSpan(found)).ok());
  for (std::vector<uint64_t>& rows : found) {
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  return found;
}

// Steps of a model whose first variables are sparse ones of width 4.
void ExpectRowsOfTheProcessor(const Case& one, const Batch& batch) {
  Trained got(Compiled(one));
  Trained wanted(OnProcessor(one));
  const std::vector<std::vector<uint64_t>> rows = RowsOf(*got.model, batch);
  ASSERT_EQ(rows, RowsOf(*wanted.model, batch));
  const std::vector<absl::Span<const uint64_t>> numbers(rows.begin(),
                                                        rows.end());
  for (Trained* trained : {&got, &wanted}) {
    for (size_t v = 0; v < rows.size(); ++v) {
      const size_t size = 4 * rows[v].size();
      trained->weight_views[v] = trained->weight_views[v].first(size);
      trained->gradient_views[v] = trained->gradient_views[v].first(size);
    }
    const auto metrics = trained->model->Step(
        trained->weight_views, batch, {.divisor = 2, .rows = numbers},
        trained->gradient_views, [](size_t) {});
    ASSERT_TRUE(metrics.ok()) << metrics.status();
  }
  for (size_t v = 0; v < got.gradients.size(); ++v) {
    ExpectClose(got.gradient_views[v], wanted.gradient_views[v],
                got.model->variables()[v].name());
  }
  const auto evaluated =
      got.model->EvaluateRows(got.weight_views, batch, numbers);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  ExpectClose(*evaluated,
              *wanted.model->EvaluateRows(wanted.weight_views, batch, numbers));
}

TEST_F(CompiledNetworkTest, RowsOfASparseVariableAreTheProcessors) {
  const Case one = {"Rows",
                    "layers { embedding { width: 4 sparse: true } } "
                    "layers { flatten {} } layers { dense { units: 3 } } "
                    "loss: SOFTMAX_CROSS_ENTROPY",
                    {{Integers("words", {5}, 1000), Integers("label", {}, 3)}}};
  // Fewer rows than the smallest program takes, and more.
  for (const uint64_t size : {4, 40}) {
    ExpectRowsOfTheProcessor(one, RandomBatch(one.input, size, size));
  }
}

TEST_F(CompiledNetworkTest, RowsOfTwoTablesAreTheProcessors) {
  const Case one =
      OnList("Tables", "layers { bag_pool {} }", "width: 4 sparse: true");
  const Batch batch = RandomBatch(one.input, 9, 3);
  const auto rows = RowsOf(*OnProcessor(one), batch);
  EXPECT_NE(rows[0].size(), rows[1].size());
  ExpectRowsOfTheProcessor(one, batch);
}

TEST_F(CompiledNetworkTest, RowsOfAKeyedVariableAreTheProcessors) {
  const Case one = {
      "Keys",
      "layers { embedding { width: 4 sparse: true capacity: 100 } } "
      "layers { flatten {} } layers { dense { units: 3 } } "
      "loss: SOFTMAX_CROSS_ENTROPY",
      {{FeatureSpec{.name = "keys", .dtype = DType::kInt64, .dims = {5}},
        Integers("label", {}, 3)}}};
  Batch batch;
  batch.Reset(one.input, 6);
  int64_t key = -7;
  for (int64_t& value : batch.columns[0].values<int64_t>()) value = key += 3;
  for (int32_t& label : batch.columns[1].values<int32_t>()) label = 1;
  ExpectRowsOfTheProcessor(one, batch);
}

const Case kDense =
    OnImages("Dense",
             "layers { flatten {} } layers { dense { units: 7 } } "
             "layers { relu {} }");

TEST_F(CompiledNetworkTest, TwoDevicesComputeAtTheSameTime) {
  ASSERT_GE(TestClient()->device_count(), 2u);
  Trained first(Compiled(kDense, 0));
  Trained second(Compiled(kDense, 1));
  const Batch batch = RandomBatch(kImages, 8, 1);
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(second.Step(batch, 8).ok());
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(first.Step(batch, 8).ok());
  other.join();
  EXPECT_EQ(first.gradients, second.gradients);
  EXPECT_EQ(first.model->device(), second.model->device());
  EXPECT_EQ(first.model->device().rfind("pjrt ", 0), 0u);
}

TEST_F(CompiledNetworkTest, AStepIsTheSameBitsAgainAndInAClone) {
  Trained first(Compiled(kDense));
  Trained clone(first.model->Clone());
  const Batch batch = RandomBatch(kImages, 8, 1);
  ASSERT_TRUE(first.Step(batch, 8).ok());
  const auto once = first.gradients;
  ASSERT_TRUE(first.Step(batch, 8).ok());
  EXPECT_EQ(first.gradients, once);
  ASSERT_TRUE(clone.Step(batch, 8).ok());
  EXPECT_EQ(clone.gradients, once);
}

TEST_F(CompiledNetworkTest, TheLastLayersGradientsAreReadyFirst) {
  Trained trained(Compiled(kDense));
  ASSERT_TRUE(trained.Step(RandomBatch(kImages, 8, 1), 8).ok());
  EXPECT_THAT(trained.ready, ElementsAre(3, 2, 1, 0));
}

TEST_F(CompiledNetworkTest, NoneIsReadyIfTheLossIsNotFinite) {
  Trained trained(Compiled(kDense));
  trained.values[0][0] = std::numeric_limits<float>::infinity();
  const auto metrics = trained.Step(RandomBatch(kImages, 8, 1), 8);
  ASSERT_TRUE(metrics.ok());
  EXPECT_FALSE(std::isfinite(metrics->loss_sum));
  EXPECT_TRUE(trained.ready.empty());
}

TEST_F(CompiledNetworkTest, ABatchWithoutExamplesGivesZeros) {
  Trained trained(Compiled(kDense));
  Batch batch;
  batch.Reset(kImages, 0);
  ASSERT_TRUE(trained.Step(batch, 1).ok());
  for (const auto& gradient : trained.gradients) {
    for (const float value : gradient) EXPECT_EQ(value, 0);
  }
  EXPECT_THAT(trained.ready, ElementsAre(3, 2, 1, 0));
}

TEST_F(CompiledNetworkTest, ALabelOutOfRangeIsNamed) {
  Trained trained(Compiled(kDense));
  Batch batch = RandomBatch(kImages, 2, 1);
  batch.Find("label")->values<int32_t>()[1] = 5;
  EXPECT_EQ(trained.Step(batch, 2).status().code(),
            absl::StatusCode::kDataLoss);
}

// More sizes than programs are kept.
TEST_F(CompiledNetworkTest, ManySizesOfBatchesAreComputed) {
  Trained trained(Compiled(kDense));
  for (uint64_t size = 1; size <= 20; ++size) {
    ASSERT_TRUE(trained.Step(RandomBatch(kImages, size, 1), 8).ok());
  }
  ASSERT_TRUE(trained.Step(RandomBatch(kImages, 1, 1), 8).ok());
}

// Known before there is a plugin.
TEST(CompiledLossTest, ALossOverABatchIsRefused) {
  v1::ModelConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { dense { units: 3 } } loss: IN_BATCH_SOFTMAX", &config));
  const InputSpec input{
      {Numbers("x", {2, 4}),
       {.name = "label", .dtype = DType::kInt64, .dims = {}}}};
  const auto made = CompiledNetwork::Create(config, input, /*client=*/nullptr,
                                            /*device=*/0, ComputeFormat::kFp32);
  ASSERT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()),
              ::testing::HasSubstr("in_batch_softmax is computed on the "
                                   "processor and on GPUs"));
}

}  // namespace
}  // namespace paramd
