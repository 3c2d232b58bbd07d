// Products that layers hold, at any depth, and those of attention.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/quantization.h"
#include "compute/model/network.h"
#include "compute/model/parallel.h"
#include "compute/model/recompute.h"
#include "compute/model/residual.h"
#include "compute/model/simple_layers.h"
#include "compute/quantized/integer_attention.h"
#include "compute/quantized/integer_run.h"
#include "compute/quantized/products.h"
#include "compute/quantized/quantize.h"
#include "compute/quantized/quantized_network.h"
#include "compute/quantized/testing/quantized_models.h"
#include "input/pipeline.h"

namespace paramd {
namespace {

using Mode = Quantization::Mode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// How a network is quantised.
struct Way {
  Mode mode = Mode::kStatic;
  int activation_bits = 8;
};
constexpr Way kWays[] = {
    {Mode::kStatic, 8}, {Mode::kStatic, 16}, {Mode::kDynamic, 8}};

std::string TextOf(const Way& way) {
  return absl::StrCat(NameOf(way.mode), " ", way.activation_bits);
}

// A network with weights, and the set that it is calibrated on.
struct NestedModel {
  NestedModel(v1::ModelConfig config, uint64_t seed)
      : model(std::move(config)), data(OpenRandomImages()) {
    auto planned = PlanNetwork(model, data->spec());
    EXPECT_TRUE(planned.ok()) << planned.status();
    plan = *std::move(planned);
    weights = RandomModelWeights(*plan, seed);
  }

  std::vector<float> InFloat() const {
    auto network = Network::Create(model, data->spec());
    EXPECT_TRUE(network.ok()) << network.status();
    return PredictionsOf(weights, *data, network->get());
  }
  Quantized QuantizedBy(const Way& way) const {
    QuantizeOptions options;
    options.mode = way.mode;
    options.activation_bits = way.activation_bits;
    if (way.mode == Mode::kStatic) options.calibration = data.get();
    auto made = Quantize(model, data->spec(), SpansOf(weights), options);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  std::vector<float> InIntegers(
      const Quantized& made,
      IntegerKernels::Use use = IntegerKernels::Use::kWhatIsRight) const {
    const WrittenModel written = WriteAndRead(*plan, made, "nested");
    const auto opened = OpenQuantized(model, data->spec(), written.directory,
                                      SpansOf(written.weights), use);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return PredictionsOf(written.weights, *data, opened->get());
  }
  // The plan with integers in it.
  std::unique_ptr<NetworkPlan> WithIntegers(const Quantized& made) const {
    const WrittenModel written = WriteAndRead(*plan, made, "with_integers");
    const auto tensors = ReadIntegers(written.directory, made.quantization);
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    auto other = PlanNetwork(model, data->spec());
    EXPECT_TRUE(other.ok()) << other.status();
    const absl::Status used = UseIntegers(
        made.quantization, *tensors, SpansOf(written.weights), other->get());
    EXPECT_TRUE(used.ok()) << used;
    return *std::move(other);
  }

  v1::ModelConfig model;
  std::unique_ptr<Pipeline> data;
  std::unique_ptr<NetworkPlan> plan;
  ModelWeights weights;
};

std::vector<std::string> NamesOf(const std::vector<FoundProduct>& products) {
  std::vector<std::string> names;
  for (const FoundProduct& product : products) names.push_back(product.name);
  return names;
}

std::string Convolution(int filters, int kernel) {
  return absl::StrCat("layers { conv2d { filters: ", filters,
                      " kernel: ", kernel,
                      " stride: 1 groups: 1 padding: SAME bias: false } } "
                      "layers { batch_norm { epsilon: 1e-5 } } ");
}

// Of every layer that holds layers.
v1::ModelConfig ResidualNetwork() {
  return ClassifierOf(absl::StrCat(
      "layers { reshape { dims: [ 8, 8, 4 ] } } ", Convolution(8, 3),
      "layers { relu {} } "
      "layers { residual { ",
      Convolution(8, 3), "layers { relu {} } ", Convolution(8, 3),
      "} } layers { relu {} } "
      "layers { recompute { layers { residual { ",
      Convolution(4, 3),
      "shortcut { conv2d { filters: 4 kernel: 1 stride: 1 "
      "groups: 1 padding: SAME bias: false } } "
      "shortcut { batch_norm { epsilon: 1e-5 } } } } } } "
      "layers { global_average_pool {} } "
      "layers { parallel { "
      "  branches { layers { dense { units: 12 } } "
      "             layers { relu {} } "
      "             layers { dense { units: 6 } } } "
      "  branches { layers { dense { units: 5 } } } } } "
      "layers { dense { units: 3 } }"));
}

// One block, of what a transformer has.
v1::ModelConfig Transformer() {
  return ClassifierOf(R"pb(
    layers { reshape { dims: [ 16, 16 ] } }
    layers {
      residual {
        layers { layer_norm { epsilon: 1e-5 } }
        layers { attention { heads: 4 causal: true } }
        layers { dropout { rate: 0.1 } }
      }
    }
    layers {
      residual {
        layers { layer_norm { epsilon: 1e-5 } }
        layers { dense { units: 32 } }
        layers { gelu {} }
        layers { dense { units: 16 } }
      }
    }
    layers { flatten {} }
    layers { dense { units: 3 } }
  )pb");
}

TEST(NestedQuantizationTest, ProductsAreFoundAtEveryDepth) {
  const NestedModel network(ResidualNetwork(), 3);
  const FoundProducts found = FindProducts(*network.plan, Mode::kStatic);
  EXPECT_THAT(
      NamesOf(found.products),
      ElementsAre("conv2d_1", "conv2d_2", "conv2d_3", "conv2d_4", "conv2d_5",
                  "dense_1", "dense_2", "dense_3", "dense_4"));
  EXPECT_TRUE(found.left.empty());
  for (const FoundProduct& product : found.products) {
    EXPECT_EQ(product.batch_norm.has_value(), product.is_convolution())
        << product.name;
  }
  EXPECT_TRUE(found.products[1].relu);
  EXPECT_FALSE(found.products[2].relu);  // It is behind the sum.
  const FoundProducts dynamic = FindProducts(*network.plan, Mode::kDynamic);
  EXPECT_THAT(NamesOf(dynamic.products),
              ElementsAre("dense_1", "dense_2", "dense_3", "dense_4"));
  ASSERT_EQ(dynamic.left.size(), 10);
  EXPECT_EQ(dynamic.left[2].name, "conv2d_2");
  EXPECT_THAT(dynamic.left[2].why, HasSubstr("needs static ranges"));
}

TEST(NestedQuantizationTest, TheProjectionsOfAttentionAreProducts) {
  const NestedModel network(Transformer(), 3);
  for (const Mode mode : {Mode::kStatic, Mode::kDynamic}) {
    const FoundProducts found = FindProducts(*network.plan, mode);
    EXPECT_THAT(NamesOf(found.products),
                ElementsAre("attention_1/projection", "attention_1/output",
                            "dense_1", "dense_2", "dense_3"));
    ASSERT_EQ(found.left.size(), 2);
    EXPECT_EQ(found.left[0].name, "layer_norm_1");
    EXPECT_EQ(found.left[0].why,
              "it is neither a dense layer nor a convolution nor attention");
  }
}

TEST(NestedQuantizationTest, IntegersPredictNearlyTheSame) {
  for (const v1::ModelConfig& model : {ResidualNetwork(), Transformer()}) {
    const NestedModel network(model, 3);
    const std::vector<float> expected = network.InFloat();
    for (const Way& way : kWays) {
      SCOPED_TRACE(TextOf(way));
      const Quantized made = network.QuantizedBy(way);
      const std::vector<float> found = network.InIntegers(made);
      EXPECT_LT(Farthest(found, expected), 0.05f);
      EXPECT_GT(Farthest(found, expected), 0);
      EXPECT_EQ(network.InIntegers(made, IntegerKernels::Use::kPlainLoops),
                found);
      // Readers that know nothing of integers compute with the weights.
      NestedModel as_float(model, 3);
      as_float.weights = WriteAndRead(*network.plan, made, "as_float").weights;
      EXPECT_LT(Farthest(as_float.InFloat(), expected), 0.05f);
    }
  }
}

TEST(NestedQuantizationTest, LayersThatHoldLayersAreKeptAroundIntegers) {
  const NestedModel network(ResidualNetwork(), 3);
  const auto plan = network.WithIntegers(network.QuantizedBy({}));
  const Sequence& layers = *plan->layers;
  EXPECT_TRUE(layers.variables().empty());
  // Reshape, convolution, residual, relu, recompute, pool, parallel, dense.
  ASSERT_EQ(layers.size(), 8);
  const auto* const residual = dynamic_cast<const Residual*>(&layers.layer(2));
  ASSERT_NE(residual, nullptr);
  EXPECT_EQ(residual->name(), "residual_1");
  // From the first convolution to the second, as integers.
  ASSERT_EQ(residual->body().size(), 1);
  EXPECT_NE(dynamic_cast<const IntegerRun*>(&residual->body().layer(0)),
            nullptr);
  const auto* const recompute =
      dynamic_cast<const Recompute*>(&layers.layer(4));
  ASSERT_NE(recompute, nullptr);
  const auto* const inner =
      dynamic_cast<const Residual*>(&recompute->layers().layer(0));
  ASSERT_NE(inner, nullptr);
  ASSERT_NE(inner->shortcut(), nullptr);
  EXPECT_NE(dynamic_cast<const IntegerRun*>(&inner->shortcut()->layer(0)),
            nullptr);
  const auto* const parallel = dynamic_cast<const Parallel*>(&layers.layer(6));
  ASSERT_NE(parallel, nullptr);
  EXPECT_FALSE(parallel->adds());
  EXPECT_EQ(parallel->branch_layers(0).size(), 1);
  EXPECT_EQ(parallel->output_dims(), (Dims{11}));
}

TEST(NestedQuantizationTest, AProductHasTheSameBitsWhereverItIs) {
  const std::string products =
      "layers { dense { units: 12 } } layers { relu {} } "
      "layers { dense { units: 3 } } ";
  const NestedModel top(ClassifierOf(products), 5);
  for (const Way& way : kWays) {
    SCOPED_TRACE(TextOf(way));
    const std::vector<float> expected = top.InIntegers(top.QuantizedBy(way));
    for (const std::string& around :
         {absl::StrCat("layers { recompute { ", products, "} }"),
          absl::StrCat("layers { parallel { branches { ", products, "} } }"),
          absl::StrCat("layers { recompute { layers { parallel { branches { "
                       "layers { recompute { ",
                       products, "} } } merge: SUM } } } }"),
          // Whose shortcut is zeros.
          absl::StrCat("layers { residual { ", products,
                       "shortcut { dense { units: 3 } } } }")}) {
      SCOPED_TRACE(around);
      NestedModel nested(ClassifierOf(around), 5);
      for (size_t v = 0; v < nested.weights.size(); ++v) {
        nested.weights[v] =
            v < top.weights.size()
                ? top.weights[v]
                : std::vector<float>(nested.weights[v].size(), 0.0f);
      }
      const Quantized made = nested.QuantizedBy(way);
      EXPECT_EQ(made.quantization.layers.size(), nested.weights.size() / 2);
      EXPECT_EQ(nested.InIntegers(made), expected);
    }
  }
}

// Of one place, whose share is 1, attention is its values' third of the first
// projection, and the second one of that.
TEST(NestedQuantizationTest, AttentionIsTheProductsOfItsProjections) {
  constexpr uint64_t kValues = 256;
  const NestedModel attention(
      ClassifierOf("layers { reshape { dims: [ 1, 256 ] } } "
                   "layers { residual { layers { attention { heads: 4 } } } } "
                   "layers { flatten {} } layers { dense { units: 3 } }"),
      9);
  NestedModel products(
      ClassifierOf("layers { reshape { dims: [ 1, 256 ] } } "
                   "layers { residual { layers { dense { units: 256 } } "
                   "                    layers { dense { units: 256 } } } } "
                   "layers { flatten {} } layers { dense { units: 3 } }"),
      9);
  for (uint64_t c = 0; c < kValues; ++c) {
    for (uint64_t i = 0; i < kValues; ++i) {
      products.weights[0][i * kValues + c] =
          attention.weights[0][i * 3 * kValues + 2 * kValues + c];
    }
    products.weights[1][c] = attention.weights[1][2 * kValues + c];
  }
  for (size_t v = 2; v < products.weights.size(); ++v) {
    products.weights[v] = attention.weights[v];
  }
  const Way dynamic = {Mode::kDynamic, 8};
  const Quantized made = attention.QuantizedBy(dynamic);
  ASSERT_EQ(made.quantization.layers.size(), 3);
  EXPECT_EQ(made.quantization.layers[0].name, "attention_1/projection");
  EXPECT_EQ(made.quantization.layers[0].kind, "attention");
  EXPECT_FALSE(made.quantization.layers[0].input.has_value());
  EXPECT_EQ(attention.InIntegers(made),
            products.InIntegers(products.QuantizedBy(dynamic)));
}

TEST(NestedQuantizationTest, AttentionIsOfIntegersWhetherStaticOrDynamic) {
  const NestedModel network(Transformer(), 3);
  for (const Way& way : kWays) {
    SCOPED_TRACE(TextOf(way));
    const Quantized made = network.QuantizedBy(way);
    EXPECT_EQ(made.quantization.layers[1].input.has_value(),
              way.mode == Mode::kStatic);
    const auto plan = network.WithIntegers(made);
    const auto* const residual =
        dynamic_cast<const Residual*>(&plan->layers->layer(1));
    ASSERT_NE(residual, nullptr);
    const auto* const attention =
        dynamic_cast<const IntegerAttention*>(&residual->body().layer(1));
    ASSERT_NE(attention, nullptr);
    EXPECT_TRUE(attention->variables().empty());
    EXPECT_EQ(attention->heads(), 4);
    EXPECT_TRUE(attention->is_causal());
    // What is left are the two layer norms.
    EXPECT_EQ(plan->layers->variables().size(), 4);
    EXPECT_EQ(plan->shared.size(), 4);
  }
}

TEST(NestedQuantizationTest, IntegersOfOneProjectionAloneAreRefused) {
  const NestedModel network(Transformer(), 3);
  Quantized made = network.QuantizedBy({Mode::kDynamic, 8});
  made.quantization.layers.erase(made.quantization.layers.begin());
  const WrittenModel written = WriteAndRead(*network.plan, made, "one_alone");
  const auto opened =
      OpenQuantized(network.model, network.data->spec(), written.directory,
                    SpansOf(written.weights));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(opened.status().message(),
            "the checkpoint has integers of 'attention_1/output' and none of "
            "the other projection of 'attention_1'");
}

TEST(NestedQuantizationTest, SharedLayersInsideOfOthersStayInFloat) {
  const std::string block =
      "layers { residual { layers { dense { units: 256 name: 'twice' } } "
      "layers { relu {} } } } ";
  const NestedModel network(
      ClassifierOf(block + block + "layers { dense { units: 3 } }"), 3);
  const FoundProducts found = FindProducts(*network.plan, Mode::kStatic);
  EXPECT_THAT(NamesOf(found.products), ElementsAre("dense_3"));
  ASSERT_EQ(found.left.size(), 2);
  for (const Quantization::Left& left : found.left) {
    EXPECT_EQ(left.name, "twice");
    EXPECT_EQ(left.why, "another layer has the same variables");
  }
  const Quantized made = network.QuantizedBy({});
  EXPECT_LT(Farthest(network.InIntegers(made), network.InFloat()), 0.05f);
  // Both read the one kernel that the plan has.
  const auto plan = network.WithIntegers(made);
  EXPECT_THAT(plan->shared, ElementsAre(0, 1, 0, 1));
}

// As before layers inside of others could be quantised.
TEST(NestedQuantizationTest, CheckpointsThatLeaveThemInFloatOpenAsTheyWere) {
  const std::string first =
      "layers { dense { units: 64 } } layers { relu {} } ";
  const NestedModel network(
      ClassifierOf(first + "layers { residual { layers { dense { units: 64 } } "
                           "layers { tanh {} } } } "
                           "layers { dense { units: 3 } }"),
      3);
  Quantized made = network.QuantizedBy({});
  ASSERT_EQ(made.quantization.layers[1].name, "dense_2");
  made.quantization.layers.erase(made.quantization.layers.begin() + 1);
  made.quantization.left = {{"residual_1", "it holds layers"}};
  QuantizedTensor& kernel = made.tensors[2];
  ASSERT_EQ(kernel.name, "dense_2/kernel");
  kernel.dtype = "F32";
  kernel.scales.clear();
  kernel.bytes.assign(reinterpret_cast<const char*>(network.weights[2].data()),
                      network.weights[2].size() * sizeof(float));
  const auto plan = network.WithIntegers(made);
  ASSERT_EQ(plan->layers->size(), 3);
  const auto* const residual =
      dynamic_cast<const Residual*>(&plan->layers->layer(1));
  ASSERT_NE(residual, nullptr);
  EXPECT_NE(dynamic_cast<const Dense*>(&residual->body().layer(0)), nullptr);
  EXPECT_THAT(plan->shared, ElementsAre(2, 3));
  for (const size_t of_integers : {0, 2}) {
    EXPECT_NE(
        dynamic_cast<const IntegerRun*>(&plan->layers->layer(of_integers)),
        nullptr);
  }
  EXPECT_LT(Farthest(network.InIntegers(made), network.InFloat()), 0.05f);
}

}  // namespace
}  // namespace paramd
