#include "compute/model/recompute_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "compute/model/network_plan.h"

namespace paramd {
namespace {

using Segments = std::vector<RecomputedLinks>;

std::vector<ChainLink> RandomChain(std::mt19937* random, size_t links,
                                   uint64_t most) {
  std::vector<ChainLink> chain(links);
  for (ChainLink& link : chain) {
    link.name = absl::StrCat("link_", &link - chain.data());
    link.input_bytes = (*random)() % most;
    link.output_bytes = (*random)() % most;
    link.kept_bytes = (*random)() % 3 == 0 ? 0 : (*random)() % most;
    link.scratch_bytes = (*random)() % 3 == 0 ? (*random)() % most : 0;
    link.reads_output = (*random)() % 2 == 0;
    link.flops = (*random)() % 10;
  }
  return chain;
}

struct Cost {
  uint64_t bytes = 0;
  uint64_t flops_again = 0;
  uint64_t swapped_bytes = 0;
  uint64_t time = 0;  // In operations.
};

// By what Sequence and Recompute do, layer by layer.
Cost CostOf(const std::vector<ChainLink>& chain, const ChainUse& use,
            const Segments& segments) {
  uint64_t kept = use.border_bytes, scratch = 0, input = 0, again = 0;
  uint64_t swapped = 0, time = 0;
  std::vector<bool> is_inside(chain.size());
  for (const auto [begin, end, is_swapped] : segments) {
    uint64_t within = 0, inner_scratch = 0, inner_input = 0;
    uint64_t kept_inside = 0, computed = 0;
    for (size_t i = begin; i < end; ++i) {
      is_inside[i] = true;
      const bool is_last = i + 1 == end;
      within += chain[i].kept_bytes;
      kept_inside += chain[i].kept_bytes;
      if (!is_last) kept_inside += chain[i].output_bytes;
      if (!is_last || !chain[i].reads_output) within += chain[i].output_bytes;
      if (!is_last || chain[i].kept_bytes > 0) computed += chain[i].flops;
      inner_scratch = std::max(inner_scratch, chain[i].scratch_bytes);
      inner_input = std::max(inner_input, chain[i].input_bytes);
    }
    const auto cost_of_swap = static_cast<uint64_t>(std::ceil(
        static_cast<double>(kept_inside) * use.flops_per_swapped_byte));
    const bool swaps =
        use.flops_per_swapped_byte > 0 && cost_of_swap < computed;
    again += swaps ? 0 : computed;
    swapped += swaps ? kept_inside : 0;
    time += swaps ? cost_of_swap : computed;
    scratch = std::max(scratch, within + 2 * inner_input + inner_scratch);
    input = std::max(input, chain[begin].input_bytes);
    if (end < chain.size()) kept += chain[end - 1].output_bytes;
  }
  for (size_t i = 0; i < chain.size(); ++i) {
    if (is_inside[i]) continue;
    kept += chain[i].kept_bytes;
    if (i + 1 < chain.size()) kept += chain[i].output_bytes;
    scratch = std::max(scratch, chain[i].scratch_bytes);
    input = std::max(input, chain[i].input_bytes);
  }
  return {use.live * kept + 2 * input + scratch, again, swapped, time};
}

// Calls `use` with every plan of the links from `begin` on.
template <typename Use>
void EachPlan(size_t begin, size_t links, Segments* segments, const Use& use) {
  if (begin == links) {
    use(*segments);
    return;
  }
  EachPlan(begin + 1, links, segments, use);
  for (size_t end = begin + 1; end <= links; ++end) {
    segments->push_back({begin, end});
    EachPlan(end, links, segments, use);
    segments->pop_back();
  }
}

TEST(RecomputePlanTest, NoPlanOfAllIsBetterThanTheOneThatIsFound) {
  std::mt19937 random(11);
  int within_reach = 0;
  int swapping = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const std::vector<ChainLink> chain =
        RandomChain(&random, 1 + random() % 7, 20);
    const ChainUse use = {
        .live = 1 + random() % 3,
        .border_bytes = random() % 5,
        .flops_per_swapped_byte = 0.1 * static_cast<double>(random() % 4)};
    const uint64_t budget = random() % 300;
    uint64_t smallest = std::numeric_limits<uint64_t>::max();
    uint64_t cheapest = std::numeric_limits<uint64_t>::max();
    Segments segments;
    EachPlan(0, chain.size(), &segments, [&](const Segments& plan) {
      const Cost cost = CostOf(chain, use, plan);
      const RecomputePlan assessed = PlanOf(chain, use, plan);
      ASSERT_EQ(assessed.bytes, cost.bytes);
      ASSERT_EQ(assessed.flops_again, cost.flops_again);
      ASSERT_EQ(assessed.swapped_bytes, cost.swapped_bytes);
      smallest = std::min(smallest, cost.bytes);
      if (cost.bytes <= budget) cheapest = std::min(cheapest, cost.time);
    });
    EXPECT_EQ(SmallestPlan(chain, use).bytes, smallest);
    const auto found = CheapestPlan(chain, use, budget);
    ASSERT_EQ(found.has_value(), smallest <= budget);
    if (!found.has_value()) continue;
    const Cost cost = CostOf(chain, use, found->segments);
    EXPECT_LE(cost.bytes, budget);
    EXPECT_EQ(cost.time, cheapest);
    if (cheapest > 0) ++within_reach;
    if (found->swapped_bytes > 0) ++swapping;
  }
  EXPECT_GT(within_reach, 50);
  EXPECT_GT(swapping, 20);
}

TEST(RecomputePlanTest, OfALongChainTheTightestBudgetIsMet) {
  std::mt19937 random(3);
  const std::vector<ChainLink> chain = RandomChain(&random, 40, 1 << 24);
  const ChainUse use = {.live = 2};
  const uint64_t least = SmallestPlan(chain, use).bytes;
  EXPECT_FALSE(CheapestPlan(chain, use, least - 1).has_value());
  const uint64_t without = PlanOf(chain, use, {}).bytes;
  ASSERT_LT(least, without / 2);
  for (const uint64_t budget : {least, (least + without) / 2, without - 1}) {
    const auto plan = CheapestPlan(chain, use, budget);
    ASSERT_TRUE(plan.has_value());
    EXPECT_LE(plan->bytes, budget);
  }
  EXPECT_TRUE(CheapestPlan(chain, use, without)->segments.empty());
}

struct Example {
  InputSpec input;
  std::string layers;
};

std::vector<Example> Examples() {
  const InputSpec images = LabelledImages({6, 6}, 4);
  const InputSpec text{
      {FeatureSpec{
           .name = "text", .dtype = DType::kInt32, .dims = {8}, .classes = 7},
       FeatureSpec{
           .name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 6}}};
  return {{images, R"(
          layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } }
          layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
          layers { relu {} }
          layers { recompute { layers { max_pool { size: 2 stride: 2 } }
                               layers { relu {} } } }
          layers { residual { drop_rate: 0.3
            layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
            layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1
                              padding: SAME } } } }
          layers { flatten {} } layers { dense { units: 30 } }
          layers { dropout { rate: 0.2 } } layers { dense { units: 4 } }
          layers { reshape { dims: 4 } })"},
          {text, R"(
          layers { select { count: 6 } } layers { embedding { width: 8 } }
          layers { positional_embedding {} }
          layers { residual { layers { layer_norm { epsilon: 1e-5 } }
                              layers { attention { heads: 2 } } } }
          layers { layer_norm { epsilon: 1e-5 } } layers { gelu {} }
          layers { reshape { dims: 48 } } layers { dense { units: 6 } })"}};
}

TEST(RecomputePlanTest, WhatAPlanNeedsIsWhatItsLayersAskFor) {
  std::mt19937 random(5);
  for (const Example& example : Examples()) {
    v1::ModelConfig config;
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(example.layers, &config));
    config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
    const auto network = PlanNetwork(config, example.input);
    ASSERT_TRUE(network.ok()) << network.status();
    const Sequence& layers = *(*network)->layers;
    for (int round = 0; round < 100; ++round) {
      const uint64_t examples = 1 + random() % 20;
      const DType dtype =
          random() % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
      const auto chain = ChainOf(layers, 0, layers.size(), examples, dtype);
      Segments segments;
      std::vector<LayerRange> ranges;
      for (size_t i = 0; i < chain.size(); ++i) {
        if (random() % 3 == 0) continue;
        const size_t end = i + 1 + random() % (chain.size() - i);
        segments.push_back({i, end});
        ranges.push_back({chain[i].layer, chain[end - 1].layer + 1});
        i = end - 1;
      }
      const auto made = WithRecompute(layers, ranges);
      const RecomputePlan plan = PlanOf(chain, {.live = 3}, segments);
      EXPECT_EQ(plan.bytes, 3 * made->KeptBytes(examples, dtype) +
                                made->ScratchBytes(examples, dtype));
      EXPECT_EQ(plan.flops_again, made->flops() - layers.flops());
    }
  }
}

}  // namespace
}  // namespace paramd
