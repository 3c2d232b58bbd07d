#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/device/reference_device.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/attention.h"
#include "compute/model/gated_sums.h"
#include "compute/model/image_layers.h"
#include "compute/model/interaction_layers.h"
#include "compute/model/norm_layers.h"
#include "compute/model/parallel.h"
#include "compute/model/place_layers.h"
#include "compute/model/recompute.h"
#include "compute/model/residual.h"
#include "compute/model/simple_layers.h"
#include "compute/model/testing/layer_run.h"

namespace paramd {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

using LayersTest = OnTestDevice;
using DenseTest = OnTestDevice;
using BatchNormLayerTest = OnTestDevice;
using DropoutTest = OnTestDevice;

std::vector<std::string> NamesOf(const Layer& layer) {
  std::vector<std::string> names;
  for (const v1::Variable& variable : layer.variables()) {
    names.push_back(variable.name());
  }
  return names;
}

template <class... Layers>
std::unique_ptr<Sequence> SequenceOf(Layers... layers) {
  std::vector<std::unique_ptr<Layer>> list;
  (list.push_back(std::move(layers)), ...);
  return std::make_unique<Sequence>("layers", std::move(list));
}

std::unique_ptr<Layer> DenseOf(const Dims& dims, uint64_t units) {
  return std::make_unique<Dense>("dense", dims, units);
}

std::unique_ptr<Layer> TanhOf(const Dims& dims) {
  return std::make_unique<ElementwiseLayer>("tanh", dims, Elementwise::kTanh);
}

Conv2d ConvOf(const Dims& image, uint64_t filters, uint64_t kernel,
              uint64_t stride, bool same, uint64_t groups = 1,
              bool bias = true) {
  return Conv2d(
      "conv2d_1", image,
      {.filters = filters,
       .groups = groups,
       .bias = bias,
       .sliding = {.kernel = kernel, .stride = stride, .same = same}});
}

TEST_F(DenseTest, NeedsAGlorotUniformKernelAndAZeroBias) {
  const Dense dense("dense_7", {784}, 512);
  EXPECT_THAT(NamesOf(dense), ElementsAre("dense_7/kernel", "dense_7/bias"));
  const v1::Variable& kernel = dense.variables()[0];
  EXPECT_EQ(kernel.dtype(), v1::FLOAT32);
  EXPECT_THAT(kernel.shape(), ElementsAre(784, 512));
  EXPECT_EQ(kernel.initializer().kind(), v1::Initializer::UNIFORM);
  EXPECT_FLOAT_EQ(kernel.initializer().high(), std::sqrt(6.0f / 1296));
  EXPECT_EQ(kernel.initializer().low(), -kernel.initializer().high());
  const v1::Variable& bias = dense.variables()[1];
  EXPECT_THAT(bias.shape(), ElementsAre(512));
  EXPECT_EQ(bias.initializer().kind(), v1::Initializer::ZEROS);
}

TEST_F(DenseTest, ForwardIsTheProductPlusTheBias) {
  const Dense dense("dense_1", {2}, 3);
  ReferenceDevice reference;
  const LayerValues values{.examples = 2,
                           .input = {1, 1, 0, 2},
                           .indices = {},
                           .weights = {{1, 2, 3, 4, 5, 6}, {10, 20, 30}},
                           .output_gradient = {0, 0, 0, 0, 0, 0}};
  EXPECT_THAT(RunLayer(dense, &reference, DType::kFloat64, values).output,
              ElementsAre(15, 27, 39, 18, 30, 42));
}

TEST_F(LayersTest, DenseIsRight) {
  ExpectLayerIsRight(Dense("dense", {7}, 5), 4);
  ExpectLayerIsRight(Dense("dense", {1}, 1), 1);
  ExpectLayerIsRight(Dense("dense", {3, 2, 4}, 5), 2);
}

TEST_F(LayersTest, ElementwiseFunctionsAreRight) {
  for (const auto function : {Elementwise::kRelu, Elementwise::kGelu,
                              Elementwise::kTanh, Elementwise::kSigmoid}) {
    ExpectLayerIsRight(ElementwiseLayer("elementwise", {2, 3}, function), 5);
  }
}

TEST_F(LayersTest, Conv2dIsRight) {
  ExpectLayerIsRight(ConvOf({5, 4, 2}, 3, 3, 1, true), 2);
  ExpectLayerIsRight(ConvOf({5, 6, 2}, 4, 3, 2, true, 2), 2);
  ExpectLayerIsRight(ConvOf({6, 5, 4}, 4, 2, 1, false, 4, false), 2);
  ExpectLayerIsRight(ConvOf({6, 6, 1}, 2, 5, 3, false), 1);
}

TEST_F(LayersTest, Conv2dHasTheShapesOfItsPadding) {
  EXPECT_THAT(ConvOf({28, 28, 1}, 32, 5, 1, true).output_dims(),
              ElementsAre(28, 28, 32));
  EXPECT_THAT(ConvOf({7, 8, 1}, 32, 3, 2, true).output_dims(),
              ElementsAre(4, 4, 32));
  EXPECT_THAT(ConvOf({7, 8, 1}, 32, 3, 2, false).output_dims(),
              ElementsAre(3, 3, 32));
  const Conv2d grouped = ConvOf({7, 8, 4}, 6, 3, 1, true, 2);
  EXPECT_THAT(grouped.variables()[0].shape(), ElementsAre(3, 3, 2, 6));
}

TEST_F(LayersTest, PoolingIsRight) {
  for (const auto kind : {Pooling::Kind::kMax, Pooling::Kind::kAverage}) {
    ExpectLayerIsRight(Pool("pool", {4, 6, 2}, kind, {2, 2, false}), 2);
    ExpectLayerIsRight(Pool("pool", {5, 5, 2}, kind, {3, 2, true}), 2);
    ExpectLayerIsRight(GlobalPool("pool", {3, 4, 2}, kind), 2);
  }
}

TEST_F(LayersTest, NormsAreRight) {
  ExpectLayerIsRight(BatchNormLayer("norm", {3, 2, 4}, 1e-5, 0.9), 3);
  ExpectLayerIsRight(BatchNormLayer("norm", {5}, 1e-3, 0.9), 4);
  ExpectLayerIsRight(LayerNormLayer("norm", {3, 6}, 1e-5), 3);
}

TEST_F(LayersTest, DropoutIsRight) {
  ExpectLayerIsRight(Dropout("dropout_1", {3, 5}, 0.4), 6);
}

TEST_F(LayersTest, AttentionIsRight) {
  ExpectLayerIsRight(Attention("attention", {4, 6}, 2, false), 2);
  ExpectLayerIsRight(Attention("attention", {5, 4}, 1, true), 2);
}

TEST_F(LayersTest, EmbeddingsAreRight) {
  ExpectLayerIsRight(Embedding("embedding", {6}, {.rows = 5, .width = 3}), 2,
                     /*bound=*/5);
  ExpectLayerIsRight(PositionalEmbedding("position", {4, 3}), 3);
}

TEST_F(LayersTest, ResidualIsRight) {
  ExpectLayerIsRight(
      Residual("residual", SequenceOf(DenseOf({4}, 4), TanhOf({4})), nullptr,
               0),
      3);
  ExpectLayerIsRight(
      Residual("residual", SequenceOf(DenseOf({4}, 6), TanhOf({6})),
               SequenceOf(std::make_unique<Dense>("around", Dims{4}, 6)), 0),
      3);
  ExpectLayerIsRight(
      Residual("residual_1", SequenceOf(DenseOf({4}, 4)), nullptr, 0.5), 8);
}

TEST_F(LayersTest, RecomputedLayersAreRight) {
  const auto again = [](std::unique_ptr<Sequence> layers) {
    return std::make_unique<Recompute>("recompute", std::move(layers));
  };
  const auto norm = [](const Dims& dims) {
    return std::make_unique<BatchNormLayer>("norm", dims, 1e-5, 0.9);
  };
  const auto drop = [](const Dims& dims) {
    return std::make_unique<Dropout>("dropout_1", dims, 0.4);
  };
  ExpectLayerIsRight(*again(SequenceOf(DenseOf({4}, 5), TanhOf({5}))), 3);
  // The last one keeps nothing, and something.
  ExpectLayerIsRight(*again(SequenceOf(TanhOf({4}), DenseOf({4}, 5))), 3);
  ExpectLayerIsRight(
      *again(SequenceOf(norm({4}), DenseOf({4}, 6), TanhOf({6}), drop({6}))),
      5);
  ExpectLayerIsRight(
      *again(SequenceOf(again(SequenceOf(norm({4}), DenseOf({4}, 6))),
                        TanhOf({6}),
                        again(SequenceOf(drop({6}), DenseOf({6}, 3))))),
      4);
  ExpectLayerIsRight(
      *again(SequenceOf(std::make_unique<Residual>(
          "residual_1",
          SequenceOf(again(SequenceOf(DenseOf({4}, 4), TanhOf({4})))), nullptr,
          0.5))),
      6);
  // What it computes again must not get where the sum is.
  ExpectLayerIsRight(
      Residual("residual_1",
               SequenceOf(again(SequenceOf(DenseOf({4}, 4), drop({4})))),
               SequenceOf(again(SequenceOf(DenseOf({4}, 4), drop({4})))), 0),
      6);
  ExpectLayerIsRight(
      *again(SequenceOf(
          std::make_unique<Embedding>("embedding", Dims{6},
                                      Embedding::Table{.rows = 5, .width = 3}),
          TanhOf({6, 3}))),
      2, /*bound=*/5);
  ExpectLayerIsRight(*again(SequenceOf(std::make_unique<Reshape>(
                         "reshape", Dims{2, 3}, Dims{6}))),
                     2);
}

TEST_F(LayersTest, ARecomputedLayerKeepsNothingAndItsScratchHoldsTheRest) {
  auto layers = SequenceOf(DenseOf({4}, 50), TanhOf({50}), DenseOf({50}, 3));
  const uint64_t kept = layers->KeptBytes(10, DType::kFloat32);
  const uint64_t scratch = layers->ScratchBytes(10, DType::kFloat32);
  EXPECT_GE(kept, 2u * 10 * 50 * sizeof(float));
  const Recompute again("recompute", std::move(layers));
  EXPECT_EQ(again.KeptBytes(10, DType::kFloat32), 0u);
  // And its output, which the last layer need not read.
  EXPECT_EQ(again.ScratchBytes(10, DType::kFloat32), kept + scratch + 128);
  EXPECT_THAT(NamesOf(again), ElementsAre("dense/kernel", "dense/bias",
                                          "dense/kernel", "dense/bias"));
}

TEST_F(LayersTest, InteractionsAreRight) {
  ExpectLayerIsRight(DotInteraction("dots", {4, 3}), 3);
  ExpectLayerIsRight(DotInteraction("dots", {2, 1}), 1);
  ExpectLayerIsRight(GlobalSumPool("sum", {5, 3}), 2);
  ExpectLayerIsRight(Cross("cross", {4}, 1), 3);
  ExpectLayerIsRight(Cross("cross", {5}, 3), 2);
}

TEST_F(LayersTest, LayersOverPlacesAreRight) {
  ExpectLayerIsRight(Select("select", {5, 3}, 1, 2, false), 3);
  ExpectLayerIsRight(Select("select", {4}, 0, 1, false), 2);
  for (const Bag kind : {Bag::kSum, Bag::kMean, Bag::kSqrtN, Bag::kMax}) {
    ExpectLayerIsRight(BagPool("bag", {4, 3}, kind), 3);
  }
  ExpectLayerIsRight(AttentionPool("attention", {4, 3}, 5), 3);
  ExpectLayerIsRight(AttentionPool("attention", {2, 1}, 1), 1);
}

// Of an embedding with padding, and after it.
std::vector<double> RowsOf(const std::vector<int32_t>& indices) {
  std::vector<double> rows;
  for (const int32_t index : indices) {
    for (int v = 1; v <= 2; ++v) rows.push_back(index < 0 ? 0 : v * index + 1);
  }
  return rows;
}

TEST_F(LayersTest, PaddingIsNoPlaceOfABag) {
  ReferenceDevice reference;
  LayerValues values{.examples = 3,
                     .input = RowsOf({3, -1, 1, -1, -1, -1, 2, 2, 5}),
                     .indices = {},
                     .weights = {},
                     .output_gradient = {6, 6, 6, 6, 6, 6}};
  const auto run = [&](Bag kind) {
    return RunLayer(BagPool("bag", {3, 2}, kind), &reference, DType::kFloat64,
                    values);
  };
  EXPECT_THAT(run(Bag::kSum).output, ElementsAre(6, 10, 0, 0, 12, 21));
  EXPECT_THAT(run(Bag::kMean).output, ElementsAre(3, 5, 0, 0, 4, 7));
  EXPECT_THAT(run(Bag::kSqrtN).output,
              ElementsAre(6 / std::sqrt(2.0), 10 / std::sqrt(2.0), 0, 0,
                          12 / std::sqrt(3.0), 21 / std::sqrt(3.0)));
  EXPECT_THAT(run(Bag::kMax).output, ElementsAre(4, 7, 0, 0, 6, 11));
  EXPECT_EQ(run(Bag::kMean).input_gradient,
            std::vector<double>(
                {3, 3, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2}));
  // A row of the table that is zero is trained like others.
  EXPECT_EQ(run(Bag::kSum).input_gradient, std::vector<double>(18, 6));
  EXPECT_EQ(run(Bag::kMax).input_gradient,
            std::vector<double>(
                {6, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 6}));
}

TEST_F(LayersTest, AttentionIsASumOfKeysByTheirWeights) {
  // sigmoid(0) of two units, and a bias, weigh each key alike.
  const AttentionPool pool("pool", {3, 2}, 2);
  EXPECT_EQ(pool.output_dims(), Dims({2, 2}));
  ReferenceDevice reference;
  LayerValues values{
      .examples = 2,
      .input = RowsOf({1, 2, 3, 4, 5, -1}),
      .indices = {},
      .weights = {std::vector<double>(16, 0), {0, 0}, {1, 2}, {0.5}},
      .output_gradient = std::vector<double>(8, 1)};
  EXPECT_THAT(RunLayer(pool, &reference, DType::kFloat64, values).output,
              ElementsAre(2, 3, 2 * 7, 2 * 12, 5, 9, 2 * 6, 2 * 11));
  // The product with the query, after a steep sigmoid: 1 of those above 0.
  values.weights = {std::vector<double>(16, 0), {0, 0}, {1, 0}, {0}};
  values.weights[0][6 * 2] = 1000;
  values.input = {1, 0, 2, 7, -3, 4, -1, 0, 2, 7, -3, 4};
  EXPECT_THAT(RunLayer(pool, &reference, DType::kFloat64, values).output,
              ElementsAre(1, 0, 2, 7, -1, 0, -3, 4));
}

TEST_F(LayersTest, PaddingInAListChangesNothingButItsOwnPlace) {
  const AttentionPool longer("pool", {4, 2}, 3);
  const AttentionPool shorter("pool", {3, 2}, 3);
  ReferenceDevice reference;
  LayerValues values = RandomValues(longer, 1, 0, 3);
  std::fill(values.input.begin() + 4, values.input.begin() + 6, 0);
  const auto padded = RunLayer(longer, &reference, DType::kFloat64, values);
  values.input.erase(values.input.begin() + 4, values.input.begin() + 6);
  const auto without = RunLayer(shorter, &reference, DType::kFloat64, values);
  const auto equal = [](double a, double b) { return std::abs(a - b) < 1e-12; };
  const auto same = [&](const std::vector<double>& a,
                        const std::vector<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
  };
  EXPECT_TRUE(same(padded.output, without.output));
  for (size_t v = 0; v < 4; ++v) {
    EXPECT_TRUE(same(padded.gradients[v], without.gradients[v]));
  }
  std::vector<double> by_input = padded.input_gradient;
  by_input.erase(by_input.begin() + 4, by_input.begin() + 6);
  EXPECT_TRUE(same(by_input, without.input_gradient));
}

TEST_F(LayersTest, AnInteractionHasEachPairOnce) {
  const DotInteraction dots("dots", {3, 2});
  ReferenceDevice reference;
  const LayerValues values{.examples = 1,
                           .input = {1, 2, 3, 4, 5, 6},
                           .indices = {},
                           .weights = {},
                           .output_gradient = {0, 0, 0}};
  EXPECT_THAT(RunLayer(dots, &reference, DType::kFloat64, values).output,
              ElementsAre(11, 17, 39));
}

TEST_F(LayersTest, ParallelBranchesAreRight) {
  for (const bool sum : {false, true}) {
    std::vector<Parallel::Branch> branches;
    branches.push_back({SequenceOf(DenseOf({2, 3}, 4), TanhOf({2, 4}))});
    branches.push_back(
        {SequenceOf(std::make_unique<Dense>("other", Dims{2, 3}, 4))});
    if (!sum) {
      branches.push_back(
          {SequenceOf(std::make_unique<Reshape>("flat", Dims{2, 3}, Dims{6}))});
    }
    const Parallel parallel("parallel", {2, 3}, std::move(branches), sum);
    EXPECT_EQ(parallel.output_dims(), sum ? Dims({2, 4}) : Dims({22}));
    ExpectLayerIsRight(parallel, 3);
  }
}

TEST_F(LayersTest, GatedSumsAreRight) {
  for (const uint64_t gates : {1, 3}) {
    const GatedSums sums("sums", gates, /*experts=*/4, /*values=*/5);
    EXPECT_EQ(sums.input_dims(), Dims({4 * (gates + 5)}));
    EXPECT_EQ(sums.output_dims(), Dims({gates, 5}));
    ExpectLayerIsRight(sums, 3);
  }
}

// Two gates over two experts, of two values each.
TEST_F(LayersTest, AGateWeighsExpertsByItsSoftmax) {
  const GatedSums sums("sums", 2, 2, 2);
  ReferenceDevice reference;
  const double log3 = std::log(3.0);
  const LayerValues values{.examples = 1,
                           .input = {0, 0, log3, 0, 8, 4, 0, 12},
                           .indices = {},
                           .weights = {},
                           .output_gradient = {0, 0, 0, 0}};
  EXPECT_THAT(RunLayer(sums, &reference, DType::kFloat64, values).output,
              ElementsAre(4, 8, DoubleNear(6, 1e-12), DoubleNear(6, 1e-12)));
}

TEST_F(LayersTest, SequencesWithViewsAreRight) {
  const auto view = [](const Dims& from, const Dims& to) {
    return std::make_unique<Reshape>("reshape", from, to);
  };
  ExpectLayerIsRight(
      *SequenceOf(view({2, 3}, {6}), DenseOf({6}, 4), view({4}, {2, 2}),
                  TanhOf({2, 2}), DenseOf({2, 2}, 3), view({2, 3}, {6})),
      3);
  ExpectLayerIsRight(*SequenceOf(view({2, 3}, {6}), view({6}, {3, 2})), 2);
}

TEST_F(LayersTest, ACausalPlaceSeesNoneBehindIt) {
  const Attention attention("attention", {5, 4}, 2, /*causal=*/true);
  ReferenceDevice reference;
  LayerValues values = RandomValues(attention, 1, 0, 1);
  const auto before =
      RunLayer(attention, &reference, DType::kFloat64, values).output;
  for (size_t i = 3 * 4; i < values.input.size(); ++i) values.input[i] += 1;
  const auto after =
      RunLayer(attention, &reference, DType::kFloat64, values).output;
  for (size_t i = 0; i < 3 * 4; ++i) EXPECT_EQ(before[i], after[i]);
  EXPECT_NE(before[3 * 4], after[3 * 4]);
}

TEST_F(BatchNormLayerTest, NormalisesByTheBatchAndMovesRunningStatistics) {
  const BatchNormLayer norm("batch_norm_1", {1}, 1e-12, 0.75);
  EXPECT_THAT(NamesOf(norm),
              ElementsAre("batch_norm_1/scale", "batch_norm_1/shift",
                          "batch_norm_1/mean", "batch_norm_1/variance"));
  EXPECT_FALSE(norm.variables()[1].untrained());
  EXPECT_TRUE(norm.variables()[2].untrained());
  EXPECT_EQ(norm.variables()[3].initializer().low(), 1);
  ReferenceDevice reference;
  LayerValues values{.examples = 4,
                     .input = {1, 3, 5, 7},
                     .indices = {},
                     .weights = {{2}, {1}, {0}, {1}},
                     .output_gradient = {0, 0, 0, 0},
                     .training = true,
                     .share = 0.5};
  const auto trained = RunLayer(norm, &reference, DType::kFloat64, values);
  const double deviation = std::sqrt(5.0);
  EXPECT_NEAR(trained.output[0], -3 / deviation * 2 + 1, 1e-9);
  EXPECT_NEAR(trained.output[3], 3 / deviation * 2 + 1, 1e-9);
  // Subtracted: 0 becomes 0 + (1 - 0.75) * 0.5 * 4, and 1 moves towards 5.
  EXPECT_NEAR(trained.gradients[2][0], -0.25 * 0.5 * 4, 1e-9);
  EXPECT_NEAR(trained.gradients[3][0], -0.25 * 0.5 * (5 - 1), 1e-9);

  values.training = false;
  values.weights = {{2}, {1}, {3}, {4}};
  EXPECT_THAT(RunLayer(norm, &reference, DType::kFloat64, values).output,
              ElementsAre(::testing::DoubleNear(-1, 1e-9),
                          ::testing::DoubleNear(1, 1e-9),
                          ::testing::DoubleNear(3, 1e-9),
                          ::testing::DoubleNear(5, 1e-9)));
}

TEST_F(BatchNormLayerTest, SharesOfReplicasAddUpToTheMeanOverThem) {
  const BatchNormLayer norm("norm", {1}, 1e-5, 0.9);
  ReferenceDevice reference;
  LayerValues values{.examples = 2,
                     .input = {1, 3},
                     .indices = {},
                     .weights = {{1}, {0}, {0.5}, {1}},
                     .output_gradient = {0, 0},
                     .training = true,
                     .share = 2.0 / 8};
  const double first =
      RunLayer(norm, &reference, DType::kFloat64, values).gradients[2][0];
  values.examples = 6;
  values.input = {4, 4, 4, 8, 8, 8};
  values.output_gradient.assign(6, 0);
  values.share = 6.0 / 8;
  const double second =
      RunLayer(norm, &reference, DType::kFloat64, values).gradients[2][0];
  EXPECT_NEAR(0.5 - (first + second), 0.9 * 0.5 + 0.1 * (2.0 * 2 + 6.0 * 6) / 8,
              1e-12);
}

TEST_F(DropoutTest, DropsByTheRateAndKeepsTheMean) {
  const Dropout dropout("dropout_1", {1000}, 0.25);
  ReferenceDevice reference;
  LayerValues values{.examples = 4};
  values.input.assign(4000, 1);
  values.output_gradient.assign(4000, 1);
  const auto result = RunLayer(dropout, &reference, DType::kFloat64, values);
  double sum = 0;
  for (const double value : result.output) {
    EXPECT_TRUE(value == 0 || value == 1 / 0.75);
    sum += value;
  }
  EXPECT_NEAR(sum / 4000, 1, 0.03);
  EXPECT_EQ(result.output, result.input_gradient);
  values.training = false;
  EXPECT_EQ(RunLayer(dropout, &reference, DType::kFloat64, values).output,
            values.input);
}

}  // namespace
}  // namespace paramd
