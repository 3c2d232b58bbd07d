#include "config/optimizer_names.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

v1::Variable Named(const std::string& name,
                   const std::vector<uint64_t>& shape) {
  v1::Variable variable;
  variable.set_name(name);
  variable.mutable_shape()->Assign(shape.begin(), shape.end());
  return variable;
}

class OptimizerNamesTest : public ::testing::Test {
 protected:
  v1::OptimizerConfig::Pruning* Prune(const std::string& variables) {
    v1::OptimizerConfig::Pruning* const pruning = config_.add_pruning();
    pruning->set_variables(variables);
    pruning->set_structure(v1::OptimizerConfig::Pruning::CHANNELS);
    return pruning;
  }
  VariablePointers Pointers() {
    pointers_.clear();
    for (const v1::Variable& one : variables_) pointers_.push_back(&one);
    return pointers_;
  }
  std::string Message() {
    return std::string(CheckOptimizerNames(config_, Pointers()).message());
  }

  v1::OptimizerConfig config_;
  std::vector<v1::Variable> variables_ = {
      Named("dense_1/kernel", {4, 8}), Named("dense_1/bias", {8}),
      Named("dense_2/kernel", {8, 3}), Named("dense_2/bias", {3})};
  std::vector<const v1::Variable*> pointers_;
};

TEST_F(OptimizerNamesTest, AMistakeNamesTheClosestVariables) {
  Prune("dens_1/kernel");
  EXPECT_EQ(Message(),
            "optimizer.pruning names 'dens_1/kernel', which no variable is "
            "called; the closest is 'dense_1/kernel'");
  config_.mutable_pruning(0)->set_variables("*/kernle");
  EXPECT_EQ(Message(),
            "optimizer.pruning names '*/kernle', which no variable is called; "
            "the closest are 'dense_1/kernel', 'dense_2/kernel'");
  config_.mutable_pruning(0)->set_variables("*/kernel");
  EXPECT_EQ(Message(), "");
  config_.set_no_decay("*/bais");
  EXPECT_EQ(Message(),
            "optimizer.no_decay names '*/bais', which no variable is called; "
            "the closest are 'dense_1/bias', 'dense_2/bias'");
}

TEST_F(OptimizerNamesTest, ANormIsPrunedWithTheKernelBeforeIt) {
  Prune("*");
  variables_ = {
      Named("conv2d_1/kernel", {3, 3, 1, 4}), Named("batch_norm_1/scale", {4}),
      Named("conv2d_2/kernel", {3, 3, 4, 4}), Named("batch_norm_2/scale", {4})};
  EXPECT_THAT(ChannelLeads(config_, Pointers()), ElementsAre(0u, 0u, 2u, 2u));
}

TEST_F(OptimizerNamesTest, VariablesOfALayerArePrunedTogether) {
  Prune("dense_1/*");
  Prune("*/kernel");
  EXPECT_THAT(ChannelLeads(config_, Pointers()),
              ElementsAre(0u, 0u, 2u, absl::nullopt));
  EXPECT_EQ(Message(), "");
  variables_[1].set_untrained(true);
  EXPECT_THAT(ChannelLeads(config_, Pointers()),
              ElementsAre(0u, absl::nullopt, 2u, absl::nullopt));
  config_.mutable_pruning(0)->set_structure(
      v1::OptimizerConfig::Pruning::WEIGHTS);
  EXPECT_THAT(ChannelLeads(config_, Pointers()),
              ElementsAre(absl::nullopt, absl::nullopt, 2u, absl::nullopt));
}

TEST_F(OptimizerNamesTest, ChannelsAreThoseOfAKernel) {
  Prune("dense_1/*,dense_2/bias");
  EXPECT_EQ(Message(),
            "optimizer.pruning names 'dense_2/bias' with structure channels, "
            "and no kernel before it that has as many channels; name the "
            "kernel, too, or leave it out");
}

TEST_F(OptimizerNamesTest, ServersCanCountAsManyChannels) {
  Prune("*");
  variables_ = {Named("a/kernel", {1, 32768})};
  EXPECT_EQ(Message(), "");
  variables_.push_back(Named("b/kernel", {1, 1}));
  EXPECT_EQ(Message(),
            "optimizer.pruning names 32769 channels with structure channels; "
            "at most 32768 are pruned in one job: name fewer layers");
}

}  // namespace
}  // namespace paramd
