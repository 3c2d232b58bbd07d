// A network whose first layer is a sparse embedding.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RowViews = std::vector<absl::Span<const uint64_t>>;

// A network with drawn weights, the same for one shape.
struct Made {
  Made(const v1::ModelConfig& config, const InputSpec& input)
      : model(*Network::Create(config, input, MakeTestDevice)) {
    RandomStream random(5);
    for (const v1::Variable& variable : model->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      values.emplace_back(size);
      for (float& value : values.back()) value = random.Uniform() - 0.5f;
      gradients.emplace_back(size, std::numeric_limits<float>::quiet_NaN());
    }
    for (const std::vector<float>& one : values) weight_views.emplace_back(one);
    for (std::vector<float>& one : gradients) {
      gradient_views.push_back(absl::MakeSpan(one));
    }
  }

  Metrics Step(const Batch& batch, const RowViews& rows) {
    return *model->Step(weight_views, batch, {.divisor = 2, .rows = rows},
                        gradient_views, [](size_t) {});
  }

  std::unique_ptr<Network> model;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<float>> gradients;
  std::vector<absl::Span<const float>> weight_views;
  std::vector<absl::Span<float>> gradient_views;
};

// Rows of integers for a table, and a label.
class SparseNetworkTest : public OnTestDevice {
 protected:
  static constexpr uint32_t kRows = 1000;

  static v1::ModelConfig SparseConfig(bool sparse, uint32_t width = 4) {
    v1::ModelConfig config;
    config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
    v1::Layer::Embedding* const table =
        config.add_layers()->mutable_embedding();
    table->set_width(width);
    table->set_sparse(sparse);
    config.add_layers()->mutable_flatten();
    config.add_layers()->mutable_dense()->set_units(2);
    return config;
  }
  static InputSpec Spec() {
    return {
        {{"ids", DType::kInt32, {3}, kRows}, {"label", DType::kInt32, {}, 2}}};
  }
  static Batch MakeBatch() {
    Batch batch;
    batch.Reset(Spec(), 2);
    batch.range = {.epoch = 1, .begin = 0, .end = 2};
    const std::vector<int32_t> ids = {7, 999, 7, 0, 500, 7};
    std::copy(ids.begin(), ids.end(),
              batch.columns[0].values<int32_t>().begin());
    batch.columns[1].values<int32_t>()[0] = 1;
    batch.columns[1].values<int32_t>()[1] = 0;
    return batch;
  }
};

// The parameter is how wide the table's rows are.
class RowWidthTest : public SparseNetworkTest,
                     public ::testing::WithParamInterface<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(NetworkWidths, RowWidthTest,
                         ::testing::Values(1, 3, 4, 10));

TEST_P(RowWidthTest, AStepOnTheRowsOfABatchGivesTheirGradients) {
  const uint32_t width = GetParam();
  const Batch batch = MakeBatch();
  Made whole(SparseConfig(/*sparse=*/false, width), Spec());
  const Metrics expected = whole.Step(batch, {});

  Made sparse(SparseConfig(/*sparse=*/true, width), Spec());
  EXPECT_TRUE(sparse.model->variables()[0].sparse());
  std::vector<std::vector<uint64_t>> found(1);
  ASSERT_TRUE(sparse.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_THAT(found[0], ElementsAre(7, 999, 7, 0, 500, 7));
  // One more than it reads, as of another batch of the same push.
  const std::vector<uint64_t> rows = {0, 7, 8, 500, 999};
  std::vector<float> values;
  for (const uint64_t row : rows) {
    const auto first = whole.values[0].begin() + row * width;
    values.insert(values.end(), first, first + width);
  }
  std::vector<float> gradient(values.size(),
                              std::numeric_limits<float>::quiet_NaN());
  sparse.weight_views[0] = values;
  sparse.gradient_views[0] = absl::MakeSpan(gradient);
  const RowViews row_views = {rows};
  const Metrics metrics = sparse.Step(batch, row_views);
  EXPECT_EQ(metrics.loss_sum, expected.loss_sum);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < width; ++i) {
      EXPECT_EQ(gradient[r * width + i],
                whole.gradients[0][rows[r] * width + i]);
    }
  }
  EXPECT_EQ(sparse.gradients[1], whole.gradients[1]);
  EXPECT_EQ(sparse.model->EvaluateRows(sparse.weight_views, batch, row_views)
                ->loss_sum,
            whole.model->Evaluate(whole.weight_views, batch)->loss_sum);
  // Also with all of it.
  Made again(SparseConfig(/*sparse=*/true, width), Spec());
  EXPECT_EQ(again.model->Evaluate(again.weight_views, batch)->loss_sum,
            whole.model->Evaluate(whole.weight_views, batch)->loss_sum);
}

// Test data may have integers that training data do not have.
TEST_F(SparseNetworkTest, IntegersMayReachToTheLastRowOfTheTable) {
  v1::ModelConfig config = SparseConfig(/*sparse=*/true);
  config.mutable_layers(0)->mutable_embedding()->set_rows(2 * kRows);
  Made made(config, Spec());
  Batch batch = MakeBatch();
  std::vector<std::vector<uint64_t>> found(1);
  batch.columns[0].values<int32_t>()[1] = 2 * kRows - 1;
  EXPECT_TRUE(made.model->FindRows(batch, absl::MakeSpan(found)).ok());
  batch.columns[0].values<int32_t>()[1] = 2 * kRows;
  EXPECT_EQ(
      made.model->FindRows(batch, absl::MakeSpan(found)),
      absl::DataLossError(
          "example 0 of the batch: the feature 'ids' has 2000; it must be "
          "from 0 to 1999, or the embedding that reads it have more "
          "\"rows\""));
}

TEST_F(SparseNetworkTest, TestDataThatSurelyHaveLargerIntegersAreRefused) {
  v1::ModelConfig config = SparseConfig(/*sparse=*/true);
  Made made(config, Spec());
  InputSpec test = Spec();
  test.features[0].classes = 1024;  // The largest may be 512.
  EXPECT_TRUE(made.model->CheckTestData(test).ok());
  test.features[0].classes = 2048;
  EXPECT_EQ(made.model->CheckTestData(test),
            absl::InvalidArgumentError(
                "the test data have integers of 'ids' from 1024 on; the "
                "embedding that reads them has 1000 rows: give it \"rows\", at "
                "least 2048"));
  config.mutable_layers(0)->mutable_embedding()->set_rows(2048);
  EXPECT_TRUE(Made(config, Spec()).model->CheckTestData(test).ok());
}

TEST_F(SparseNetworkTest, RowsAreFoundWithoutLabels) {
  Made made(SparseConfig(/*sparse=*/true), Spec());
  Batch batch = MakeBatch();
  batch.columns.pop_back();
  std::vector<std::vector<uint64_t>> found(1);
  EXPECT_TRUE(made.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_THAT(found[0], ElementsAre(7, 999, 7, 0, 500, 7));
}

TEST_F(SparseNetworkTest, TablesSideBySideHaveTheSameRows) {
  const auto config = [](bool sparse) {
    v1::ModelConfig config;
    config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
    auto* const parallel = config.add_layers()->mutable_parallel();
    for (const uint32_t width : {1, 4}) {
      auto* const branch = parallel->add_branches();
      v1::Layer::Embedding* const table =
          branch->add_layers()->mutable_embedding();
      table->set_width(width);
      table->set_sparse(sparse);
      branch->add_layers()->mutable_flatten();
    }
    config.add_layers()->mutable_dense()->set_units(2);
    return config;
  };
  const Batch batch = MakeBatch();
  Made whole(config(/*sparse=*/false), Spec());
  const Metrics expected = whole.Step(batch, {});
  Made sparse(config(/*sparse=*/true), Spec());
  std::vector<std::vector<uint64_t>> found(2);
  ASSERT_TRUE(sparse.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_EQ(found[0], found[1]);
  const std::vector<uint64_t> rows = {0, 7, 500, 999};
  std::vector<float> values[2];
  std::vector<float> gradients[2];
  for (size_t v = 0; v < 2; ++v) {
    const size_t width = v == 0 ? 1 : 4;
    for (const uint64_t row : rows) {
      const auto first = whole.values[v].begin() + row * width;
      values[v].insert(values[v].end(), first, first + width);
    }
    gradients[v].resize(values[v].size());
    sparse.weight_views[v] = values[v];
    sparse.gradient_views[v] = absl::MakeSpan(gradients[v]);
  }
  EXPECT_EQ(sparse.Step(batch, {rows, rows}).loss_sum, expected.loss_sum);
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_EQ(gradients[0][r], whole.gradients[0][rows[r]]);
    EXPECT_EQ(gradients[1][r * 4 + 3], whole.gradients[1][rows[r] * 4 + 3]);
  }
}

// Two tables, of the first integer and of the others, of which those of the
// second may be padding; both as they are and after a table of all of them.
class PlacesTest : public SparseNetworkTest {
 protected:
  static v1::ModelConfig PlacesConfig(bool sparse, bool padding) {
    v1::ModelConfig config;
    config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
    auto* const parallel = config.add_layers()->mutable_parallel();
    for (const bool list : {false, true}) {
      auto* const branch = parallel->add_branches();
      v1::Layer::Select* const select = branch->add_layers()->mutable_select();
      select->set_begin(list ? 1 : 0);
      select->set_count(list ? 0 : 1);
      v1::Layer::Embedding* const table =
          branch->add_layers()->mutable_embedding();
      table->set_name(list ? "list" : "first");
      table->set_width(list ? 4 : 2);
      table->set_sparse(sparse);
      table->set_padding(list && padding);
      if (list) branch->add_layers()->mutable_bag_pool();
      if (!list) branch->add_layers()->mutable_flatten();
    }
    config.add_layers()->mutable_dense()->set_units(2);
    return config;
  }
};

TEST_F(PlacesTest, ATableReadsThePlacesThatAreSelectedForIt) {
  Batch batch = MakeBatch();
  batch.columns[0].values<int32_t>()[2] = -1;
  Made sparse(PlacesConfig(true, true), Spec());
  std::vector<std::vector<uint64_t>> found(2);
  ASSERT_TRUE(sparse.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_THAT(found[0], ElementsAre(7, 0));
  EXPECT_THAT(found[1], ElementsAre(999, 500, 7));
  Made whole(PlacesConfig(false, true), Spec());
  const Metrics expected = whole.Step(batch, {});
  const std::vector<std::vector<uint64_t>> rows = {{0, 7}, {7, 500, 999}};
  std::vector<float> values[2];
  std::vector<float> gradients[2];
  for (size_t v = 0; v < 2; ++v) {
    const size_t width = v == 0 ? 2 : 4;
    for (const uint64_t row : rows[v]) {
      const auto first = whole.values[v].begin() + row * width;
      values[v].insert(values[v].end(), first, first + width);
    }
    gradients[v].resize(values[v].size());
    sparse.weight_views[v] = values[v];
    sparse.gradient_views[v] = absl::MakeSpan(gradients[v]);
  }
  EXPECT_EQ(sparse.Step(batch, {rows[0], rows[1]}).loss_sum, expected.loss_sum);
  double others = 0;
  for (size_t v = 0; v < 2; ++v) {
    const size_t width = v == 0 ? 2 : 4;
    size_t at = 0;
    for (size_t i = 0; i < whole.gradients[v].size(); ++i) {
      if (at < rows[v].size() && rows[v][at] == i / width) {
        EXPECT_EQ(gradients[v][at * width + i % width], whole.gradients[v][i]);
        EXPECT_NE(whole.gradients[v][i], 0);
        at += i % width + 1 == width ? 1 : 0;
      } else {
        others += std::abs(whole.gradients[v][i]);
      }
    }
    EXPECT_EQ(at, rows[v].size());
  }
  EXPECT_EQ(others, 0);
}

TEST_F(PlacesTest, APlaceMeansTheSameWhereverItIsSelected) {
  // The list by its own branch, or by places of places in another shape.
  const Batch batch = MakeBatch();
  v1::ModelConfig config = PlacesConfig(false, false);
  Made direct(config, Spec());
  auto* const branch =
      config.mutable_layers(0)->mutable_parallel()->mutable_branches(1);
  auto* const layers = branch->mutable_layers();
  layers->Add()->mutable_reshape();
  for (const int64_t dim : {1, 3}) {
    layers->Mutable(layers->size() - 1)->mutable_reshape()->add_dims(dim);
  }
  layers->Add()->mutable_select()->set_begin(0);
  layers->Add()->mutable_flatten();
  // [select, embedding, bag_pool, reshape, select, flatten], rotated.
  for (int i = 0; i < 3; ++i) {
    for (int at = 2 + i; at >= i; --at) layers->SwapElements(at, at + 1);
  }
  Made indirect(config, Spec());
  EXPECT_EQ(indirect.Step(batch, {}).loss_sum, direct.Step(batch, {}).loss_sum);
  EXPECT_EQ(indirect.gradients, direct.gradients);
}

TEST_F(PlacesTest, OnlyPaddingIsBelowZero) {
  Batch batch = MakeBatch();
  batch.columns[0].values<int32_t>()[2] = -1;
  const auto status = [&](bool padding) {
    Made made(PlacesConfig(true, padding), Spec());
    std::vector<std::vector<uint64_t>> found(2);
    return made.model->FindRows(batch, absl::MakeSpan(found));
  };
  EXPECT_TRUE(status(true).ok());
  EXPECT_EQ(status(false),
            absl::DataLossError(
                "example 0 of the batch: the feature 'ids' has -1; it must be "
                "from 0 to 999, or the embedding that reads it have "
                "\"padding\""));
  batch.columns[0].values<int32_t>()[2] = -2;
  EXPECT_TRUE(absl::IsDataLoss(status(true)));
  batch.columns[0].values<int32_t>()[2] = 0;
  batch.columns[0].values<int32_t>()[3] = -1;
  EXPECT_TRUE(absl::IsDataLoss(status(true))) << "of the other table";
}

TEST_F(PlacesTest, PlacesThatAreNotThereAreNamed) {
  v1::ModelConfig config = PlacesConfig(true, true);
  v1::Layer::Select* const select = config.mutable_layers(0)
                                        ->mutable_parallel()
                                        ->mutable_branches(1)
                                        ->mutable_layers(0)
                                        ->mutable_select();
  const auto refused = [&] {
    return std::string(Network::Create(config, Spec()).status().message());
  };
  select->set_begin(3);
  EXPECT_EQ(refused(),
            "select layer 'select_2' needs 4 places or more; it gets integers "
            "of 3");
  select->set_begin(1);
  select->set_count(3);
  EXPECT_THAT(refused(), HasSubstr("needs 4 places or more"));
  select->set_count(4294967295);
  EXPECT_THAT(refused(), HasSubstr("needs 4294967296 places or more"));
}

TEST_F(PlacesTest, WhatAListNeedsIsNamed) {
  const auto refused = [](auto add) {
    v1::ModelConfig config = SparseConfig(false);
    config.mutable_layers()->RemoveLast();
    config.mutable_layers()->RemoveLast();
    add(&config);
    return std::string(Network::Create(config, Spec()).status().message());
  };
  using Config = v1::ModelConfig;
  EXPECT_THAT(refused([](Config* config) {
                config->add_layers()->mutable_flatten();
                config->add_layers()->mutable_bag_pool();
              }),
              HasSubstr("bag_pool layer 'bag_pool_1' needs [places, values]; "
                        "it gets 12"));
  EXPECT_THAT(refused([](Config* config) {
                config->add_layers()->mutable_select()->set_count(1);
                config->add_layers()->mutable_attention_pool()->set_units(2);
              }),
              HasSubstr("needs [places, values] with two places or more"));
  EXPECT_THAT(refused([](Config* config) {
                config->add_layers()->mutable_attention_pool();
              }),
              HasSubstr("'attention_pool_1' has no units"));
  EXPECT_THAT(refused([](Config* config) {
                config->mutable_layers()->RemoveLast();
                config->add_layers()->mutable_bag_pool();
              }),
              HasSubstr("put \"embedding\" before \"bag_pool\""));
}

// The same table, its rows named by any keys.
class KeyedNetworkTest : public SparseNetworkTest {
 protected:
  static constexpr int64_t kKeys[] = {7, -5,
                                      std::numeric_limits<int64_t>::max()};

  static v1::ModelConfig KeyedConfig() {
    v1::ModelConfig config = SparseConfig(/*sparse=*/true);
    config.mutable_layers(0)->mutable_embedding()->set_capacity(kRows);
    return config;
  }
  static InputSpec KeyedSpec() {
    return {{{"ids", DType::kInt64, {3}}, {"label", DType::kInt32, {}, 2}}};
  }
  static Batch KeyedBatch() {
    Batch batch;
    batch.Reset(KeyedSpec(), 2);
    batch.range = {.epoch = 1, .begin = 0, .end = 2};
    const std::vector<int64_t> keys = {kKeys[0], kKeys[1], kKeys[0],
                                       kKeys[2], kKeys[1], kKeys[1]};
    std::copy(keys.begin(), keys.end(),
              batch.columns[0].values<int64_t>().begin());
    batch.columns[1].values<int32_t>()[0] = 1;
    batch.columns[1].values<int32_t>()[1] = 0;
    return batch;
  }
  static std::string Refused(const v1::ModelConfig& config,
                             const InputSpec& input) {
    return std::string(Network::Create(config, input).status().message());
  }
};

TEST_F(KeyedNetworkTest, AStepReadsAndWritesTheRowsOfItsKeys) {
  const Batch batch = KeyedBatch();
  Made keyed(KeyedConfig(), KeyedSpec());
  const v1::Variable& table = keyed.model->variables()[0];
  EXPECT_TRUE(table.sparse());
  EXPECT_TRUE(table.keyed());
  EXPECT_EQ(table.when_full(), v1::Variable::EVICT);
  EXPECT_EQ(table.shape(0), kRows);
  std::vector<std::vector<uint64_t>> found(1);
  ASSERT_TRUE(keyed.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_THAT(found[0], ElementsAre(MixKey(kKeys[0]), MixKey(kKeys[1]),
                                    MixKey(kKeys[0]), MixKey(kKeys[2]),
                                    MixKey(kKeys[1]), MixKey(kKeys[1])));
  // A table of three rows that are numbered has the same, in this order.
  std::vector<uint64_t> ids(found[0].begin(), found[0].end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ASSERT_EQ(ids.size(), 3u);
  Batch numbered;
  numbered.Reset(Spec(), 2);
  numbered.range = batch.range;
  for (size_t i = 0; i < 6; ++i) {
    numbered.columns[0].values<int32_t>()[i] = static_cast<int32_t>(
        std::lower_bound(ids.begin(), ids.end(), found[0][i]) - ids.begin());
  }
  numbered.columns[1] = batch.columns[1];
  Made dense(SparseConfig(/*sparse=*/false), Spec());
  const Metrics expected = dense.Step(numbered, {});
  std::vector<float> values(dense.values[0].begin(),
                            dense.values[0].begin() + 3 * 4);
  std::vector<float> gradient(values.size());
  keyed.values[1] = dense.values[1];
  keyed.values[2] = dense.values[2];
  keyed.weight_views = {values, keyed.values[1], keyed.values[2]};
  keyed.gradient_views[0] = absl::MakeSpan(gradient);
  const RowViews rows = {ids};
  EXPECT_EQ(keyed.Step(batch, rows).loss_sum, expected.loss_sum);
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_EQ(gradient[i], dense.gradients[0][i]);
  }
  Batch predicted;
  Batch wanted;
  ASSERT_TRUE(
      keyed.model->PredictRows(keyed.weight_views, batch, rows, &predicted)
          .ok());
  ASSERT_TRUE(dense.model->Predict(dense.weight_views, numbered, &wanted).ok());
  EXPECT_EQ(predicted.columns[0].values<float>()[0],
            wanted.columns[0].values<float>()[0]);
}

TEST_F(KeyedNetworkTest, PaddingIsNoKey) {
  Batch batch = KeyedBatch();
  batch.columns[0].values<int64_t>()[1] = -1;
  v1::ModelConfig config = KeyedConfig();
  const auto found = [&] {
    Made made(config, KeyedSpec());
    std::vector<std::vector<uint64_t>> rows(1);
    EXPECT_TRUE(made.model->FindRows(batch, absl::MakeSpan(rows)).ok());
    return rows[0];
  };
  EXPECT_EQ(found()[1], MixKey(static_cast<uint64_t>(-1)));
  config.mutable_layers(0)->mutable_embedding()->set_padding(true);
  EXPECT_THAT(found(),
              ElementsAre(MixKey(kKeys[0]), MixKey(kKeys[0]), MixKey(kKeys[2]),
                          MixKey(kKeys[1]), MixKey(kKeys[1])));
  // It computes as a key whose row is zero, and its gradient goes nowhere.
  constexpr int64_t kZero = 12345;
  std::vector<uint64_t> rows = found();
  rows.push_back(MixKey(kZero));
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const auto zero = static_cast<size_t>(
      std::lower_bound(rows.begin(), rows.end(), MixKey(kZero)) - rows.begin());
  std::vector<float> values(rows.size() * 4, 0.5f);
  std::fill_n(values.begin() + zero * 4, 4, 0.0f);
  const auto gradient_of = [&](double* loss) {
    Made keyed(config, KeyedSpec());
    std::vector<float> gradient(values.size());
    keyed.weight_views[0] = values;
    keyed.gradient_views[0] = absl::MakeSpan(gradient);
    *loss = keyed.Step(batch, {rows}).loss_sum;
    return gradient;
  };
  double padded_loss = 0;
  double zero_loss = 0;
  const std::vector<float> padded = gradient_of(&padded_loss);
  batch.columns[0].values<int64_t>()[1] = kZero;
  const std::vector<float> named = gradient_of(&zero_loss);
  EXPECT_EQ(padded_loss, zero_loss);
  for (size_t i = 0; i < padded.size(); ++i) {
    if (i / 4 == zero) {
      EXPECT_EQ(padded[i], 0);
      EXPECT_NE(named[i], 0);
    } else {
      EXPECT_EQ(padded[i], named[i]);
    }
  }
}

TEST_F(KeyedNetworkTest, ACapacityIsRoundedUpToWholeBuckets) {
  v1::ModelConfig config = KeyedConfig();
  v1::Layer::Embedding* const table =
      config.mutable_layers(0)->mutable_embedding();
  table->set_capacity(100000);
  table->set_when_full(v1::Variable::IGNORE);
  table->set_admit_after(3);
  table->set_expire_after(1000);
  const auto model = Network::Create(config, KeyedSpec());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->variables()[0].shape(0), 2u * 65536);
  EXPECT_EQ((*model)->variables()[0].when_full(), v1::Variable::IGNORE);
  EXPECT_EQ((*model)->variables()[0].admit_after(), 3);
  EXPECT_EQ((*model)->variables()[0].expire_after(), 1000);
}

TEST_F(KeyedNetworkTest, WhatDoesNotGoWithACapacityIsNamed) {
  v1::ModelConfig config = KeyedConfig();
  v1::Layer::Embedding* const table =
      config.mutable_layers(0)->mutable_embedding();
  EXPECT_THAT(Refused(config, Spec()),
              HasSubstr("needs keys of type int64 for its capacity"));
  table->set_rows(10);
  EXPECT_THAT(Refused(config, KeyedSpec()),
              HasSubstr("'embedding_1' has both rows and a capacity"));
  table->clear_rows();
  table->set_sparse(false);
  EXPECT_THAT(Refused(config, KeyedSpec()),
              HasSubstr("a capacity, which needs \"sparse\": true"));
  table->set_sparse(true);
  table->set_width(16);
  table->set_capacity(1000000000000);
  EXPECT_THAT(Refused(config, KeyedSpec()),
              HasSubstr("a capacity of 1000000000000 rows of 16 values; at "
                        "most 68719476736 rows are possible"));
  table->set_width(262145);
  table->set_capacity(10);
  EXPECT_THAT(Refused(config, KeyedSpec()),
              HasSubstr("the second is at most 262144"));
  table->set_width(4);
  table->clear_capacity();
  EXPECT_THAT(Refused(config, KeyedSpec()), HasSubstr("needs a capacity"));
  table->set_when_full(v1::Variable::IGNORE);
  EXPECT_THAT(Refused(config, Spec()),
              HasSubstr("has when_full, which needs a capacity"));
  table->clear_when_full();
  table->set_admit_after(2);
  EXPECT_THAT(Refused(config, Spec()),
              HasSubstr("has admit_after, which needs a capacity"));
  table->clear_admit_after();
  table->set_expire_after(2);
  EXPECT_THAT(Refused(config, Spec()),
              HasSubstr("has expire_after, which needs a capacity"));
}

TEST_F(SparseNetworkTest, WhatCanNotBeSparseIsNamed) {
  v1::ModelConfig config = SparseConfig(/*sparse=*/true);
  config.mutable_layers(0)->mutable_embedding()->set_width(262145);
  EXPECT_THAT(std::string(Network::Create(config, Spec()).status().message()),
              HasSubstr("the second is at most 262144"));
}

}  // namespace
}  // namespace paramd
