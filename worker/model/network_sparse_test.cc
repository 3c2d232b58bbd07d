// A network whose first layer is a sparse embedding.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "tensor/keyed_rows.h"
#include "worker/device/testing/test_device.h"
#include "worker/model/network.h"

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

  static v1::ModelConfig SparseConfig(bool sparse) {
    v1::ModelConfig config;
    config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
    v1::Layer::Embedding* const table =
        config.add_layers()->mutable_embedding();
    table->set_width(4);
    table->set_sparse(sparse);
    config.add_layers()->mutable_flatten();
    config.add_layers()->mutable_dense()->set_units(2);
    return config;
  }
  static InputSpec Spec() {
    return {{{"ids", DType::kInt32, {3}, kRows},
             {"label", DType::kInt32, {}, 2}}};
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

TEST_F(SparseNetworkTest, AStepOnTheRowsOfABatchGivesTheirGradients) {
  const Batch batch = MakeBatch();
  Made whole(SparseConfig(/*sparse=*/false), Spec());
  const Metrics expected = whole.Step(batch, {});

  Made sparse(SparseConfig(/*sparse=*/true), Spec());
  EXPECT_TRUE(sparse.model->variables()[0].sparse());
  std::vector<std::vector<uint64_t>> found(1);
  ASSERT_TRUE(
      sparse.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_THAT(found[0], ElementsAre(7, 999, 7, 0, 500, 7));
  // One more than it reads, as of another batch of the same push.
  const std::vector<uint64_t> rows = {0, 7, 8, 500, 999};
  std::vector<float> values;
  for (const uint64_t row : rows) {
    const auto first = whole.values[0].begin() + row * 4;
    values.insert(values.end(), first, first + 4);
  }
  std::vector<float> gradient(values.size(),
                              std::numeric_limits<float>::quiet_NaN());
  sparse.weight_views[0] = values;
  sparse.gradient_views[0] = absl::MakeSpan(gradient);
  const RowViews row_views = {rows};
  const Metrics metrics = sparse.Step(batch, row_views);
  EXPECT_EQ(metrics.loss_sum, expected.loss_sum);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(gradient[r * 4 + i], whole.gradients[0][rows[r] * 4 + i]);
    }
  }
  EXPECT_EQ(sparse.gradients[1], whole.gradients[1]);
  EXPECT_EQ(sparse.model->EvaluateRows(sparse.weight_views, batch, row_views)
                ->loss_sum,
            whole.model->Evaluate(whole.weight_views, batch)->loss_sum);
  // Also with all of it.
  Made again(SparseConfig(/*sparse=*/true), Spec());
  EXPECT_EQ(again.model->Evaluate(again.weight_views, batch)->loss_sum,
            whole.model->Evaluate(whole.weight_views, batch)->loss_sum);
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

// The same table, its rows named by any keys.
class KeyedNetworkTest : public SparseNetworkTest {
 protected:
  static constexpr int64_t kKeys[] = {7, -5, std::numeric_limits<int64_t>::max()};

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
  ASSERT_TRUE(keyed.model
                  ->PredictRows(keyed.weight_views, batch, rows, &predicted)
                  .ok());
  ASSERT_TRUE(
      dense.model->Predict(dense.weight_views, numbered, &wanted).ok());
  EXPECT_EQ(predicted.columns[0].values<float>()[0],
            wanted.columns[0].values<float>()[0]);
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
  table->set_width(3);
  EXPECT_THAT(Refused(config, KeyedSpec()), HasSubstr("divides 262144"));
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
  auto* const parallel = config.add_layers()->mutable_parallel();
  parallel->add_branches();
  parallel->add_branches();
  config.mutable_layers()->SwapElements(0, 3);
  *parallel->mutable_branches(0)->add_layers() = config.layers(3);
  parallel->mutable_branches(1)->add_layers()->mutable_embedding()->set_width(4);
  EXPECT_THAT(std::string(Network::Create(config, Spec()).status().message()),
              HasSubstr("either all of a model are, or none"));
  config = SparseConfig(/*sparse=*/true);
  config.mutable_layers(0)->mutable_embedding()->set_width(3);
  EXPECT_THAT(std::string(Network::Create(config, Spec()).status().message()),
              HasSubstr("divides 262144"));
}

}  // namespace
}  // namespace paramd
