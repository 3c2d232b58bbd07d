#include "compute/model/nested_layers.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "compute/model/network_plan.h"
#include "compute/model/parallel.h"
#include "compute/model/recompute.h"
#include "compute/model/residual.h"
#include "compute/model/simple_layers.h"
#include "compute/model/swapped.h"
#include "input/batch.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Layers that hold layers, one in the other.
std::unique_ptr<NetworkPlan> PlanOfNested() {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        layers { dense { units: 8 } }
        layers {
          residual {
            layers { recompute { layers { dense { units: 8 } } } }
            layers { relu {} }
            shortcut { dense { units: 8 } }
            drop_rate: 0.25
          }
        }
        layers {
          parallel {
            branches { layers { dense { units: 3 } } }
            branches {
              input: "other"
              layers { dense { units: 3 } }
            }
            merge: SUM
          }
        }
        layers {
          mixture {
            experts { layers { dense { units: 4 } } }
            experts { layers { dense { units: 4 } } }
          }
        }
        layers { flatten {} }
        input: "x"
        loss: SOFTMAX_CROSS_ENTROPY
      )pb",
      &config));
  const InputSpec input = {{{"x", DType::kFloat32, {6}},
                            {"other", DType::kFloat32, {5}},
                            {"label", DType::kInt32, {}, 4}}};
  auto plan = PlanNetwork(config, input);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::vector<std::string> VariablesOf(const Layer& layer) {
  std::vector<std::string> names;
  for (const v1::Variable& variable : layer.variables()) {
    names.push_back(variable.name());
  }
  return names;
}

// The names of the layers that hold none, in the order of their variables.
void AddLeaves(const Sequence& layers, std::vector<std::string>* names) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto held = HeldBy(layers.layer(i));
    if (held.empty()) names->push_back(layers.layer(i).name());
    for (const Sequence* const inner : held) AddLeaves(*inner, names);
  }
}

TEST(NestedLayersTest, ALayerHasTheVariablesOfThoseThatItHolds) {
  const auto plan = PlanOfNested();
  std::vector<std::string> names;
  AddLeaves(*plan->layers, &names);
  EXPECT_THAT(names, ElementsAre("dense_1", "dense_2", "relu_1", "dense_3",
                                 "dense_4", "dense_5", "mixture_1", "dense_6",
                                 "dense_7", "mixture_1", "flatten_1"));
  for (size_t i = 0; i < plan->layers->size(); ++i) {
    const Layer& layer = plan->layers->layer(i);
    std::vector<std::string> of_held;
    for (const Sequence* const inner : HeldBy(layer)) {
      for (const std::string& name : VariablesOf(*inner)) {
        of_held.push_back(name);
      }
    }
    if (!HeldBy(layer).empty()) {
      EXPECT_EQ(of_held, VariablesOf(layer));
    }
  }
  EXPECT_THAT(HeldBy(plan->layers->layer(0)), IsEmpty());
}

TEST(NestedLayersTest, WhatStaysIsTheSame) {
  const auto plan = PlanOfNested();
  const auto same = Rebuild(
      *plan->layers, [](const Sequence&, size_t) { return Replacement(); });
  EXPECT_EQ(VariablesOf(*same), VariablesOf(*plan->layers));
  EXPECT_EQ(same->name(), plan->layers->name());
  EXPECT_EQ(&same->layer(0), &plan->layers->layer(0));
  const auto& residual = dynamic_cast<const Residual&>(same->layer(1));
  EXPECT_EQ(residual.name(), "residual_1");
  EXPECT_EQ(residual.drop_rate(), 0.25);
  EXPECT_NE(residual.shortcut(), nullptr);
  EXPECT_EQ(residual.body().layer(0).name(), "recompute_1");
  const auto& parallel = dynamic_cast<const Parallel&>(same->layer(2));
  EXPECT_TRUE(parallel.adds());
  EXPECT_FALSE(parallel.feature(0).has_value());
  EXPECT_EQ(parallel.feature(1), 1u);
  EXPECT_EQ(parallel.input_dims(), (Dims{8}));
}

TEST(NestedLayersTest, WhatIsSwappedStaysSwapped) {
  std::vector<std::unique_ptr<Layer>> inner;
  inner.push_back(std::make_unique<Dense>("inner", Dims{4}, 4));
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<Swapped>(
      "swapped", std::make_unique<Sequence>("layers", std::move(inner))));
  const auto same =
      Rebuild(Sequence("layers", std::move(layers)),
              [](const Sequence&, size_t) { return Replacement(); });
  EXPECT_NE(dynamic_cast<const Swapped*>(&same->layer(0)), nullptr);
}

// The layer and the relu behind it, wherever it is.
TEST(NestedLayersTest, LayersAreReplacedAtEveryDepth) {
  const auto plan = PlanOfNested();
  const auto other = std::make_shared<Dense>("other", Dims{8}, 8);
  std::vector<std::string> asked;
  const auto made =
      Rebuild(*plan->layers, [&](const Sequence& sequence, size_t i) {
        const std::string& name = sequence.layer(i).name();
        asked.push_back(name);
        if (name == "dense_2") return Replacement{other, i + 1};
        // Of the residual's shortcut.
        return name == "dense_3" ? Replacement{other, i + 1} : Replacement();
      });
  EXPECT_THAT(asked,
              ElementsAre("dense_1", "residual_1", "recompute_1", "dense_2",
                          "relu_1", "dense_3", "parallel_1", "dense_4",
                          "dense_5", "mixture_1", "mixture_1", "mixture_1",
                          "dense_6", "dense_7", "mixture_1", "flatten_1"));
  EXPECT_THAT(
      VariablesOf(made->layer(1)),
      ElementsAre("other/kernel", "other/bias", "other/kernel", "other/bias"));
  const auto& residual = dynamic_cast<const Residual&>(made->layer(1));
  const auto& recompute =
      dynamic_cast<const Recompute&>(residual.body().layer(0));
  EXPECT_EQ(&recompute.layers().layer(0), other.get());
}

TEST(NestedLayersTest, OneLayerStandsForSeveral) {
  const auto plan = PlanOfNested();
  const auto other = std::make_shared<Dense>("other", Dims{8}, 8);
  const auto made =
      Rebuild(*plan->layers, [&](const Sequence& sequence, size_t i) {
        return sequence.layer(i).name() == "recompute_1"
                   ? Replacement{other, i + 2}
                   : Replacement();
      });
  const auto& residual = dynamic_cast<const Residual&>(made->layer(1));
  ASSERT_EQ(residual.body().size(), 1u);
  EXPECT_EQ(&residual.body().layer(0), other.get());
}

}  // namespace
}  // namespace paramd
