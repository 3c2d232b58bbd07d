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
#include "worker/device/testing/test_device.h"
#include "worker/model/network.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

using RowViews = std::vector<absl::Span<const uint32_t>>;

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
  std::vector<std::vector<uint32_t>> found(1);
  ASSERT_TRUE(
      sparse.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_THAT(found[0], ElementsAre(7, 999, 7, 0, 500, 7));
  // One more than it reads, as of another batch of the same push.
  const std::vector<uint32_t> rows = {0, 7, 8, 500, 999};
  std::vector<float> values;
  for (const uint32_t row : rows) {
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
  std::vector<std::vector<uint32_t>> found(2);
  ASSERT_TRUE(sparse.model->FindRows(batch, absl::MakeSpan(found)).ok());
  EXPECT_EQ(found[0], found[1]);
  const std::vector<uint32_t> rows = {0, 7, 500, 999};
  std::vector<float> values[2];
  std::vector<float> gradients[2];
  for (size_t v = 0; v < 2; ++v) {
    const size_t width = v == 0 ? 1 : 4;
    for (const uint32_t row : rows) {
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

TEST_F(SparseNetworkTest, WhatCanNotBeSparseIsNamed) {
  v1::ModelConfig config = SparseConfig(/*sparse=*/true);
  auto* const parallel = config.add_layers()->mutable_parallel();
  parallel->add_branches();
  parallel->add_branches();
  config.mutable_layers()->SwapElements(0, 3);
  *parallel->mutable_branches(0)->add_layers() = config.layers(3);
  parallel->mutable_branches(1)->add_layers()->mutable_embedding()->set_width(4);
  EXPECT_THAT(std::string(Network::Create(config, Spec()).status().message()),
              ::testing::HasSubstr("either all of a model are, or none"));
  config = SparseConfig(/*sparse=*/true);
  config.mutable_layers(0)->mutable_embedding()->set_width(3);
  EXPECT_THAT(std::string(Network::Create(config, Spec()).status().message()),
              ::testing::HasSubstr("divides 262144"));
}

}  // namespace
}  // namespace paramd
