#include "compute/compiled/network_program.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<NetworkPlan> PlanOf(const std::string& layers,
                                    const InputSpec& input) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      layers + " loss: SOFTMAX_CROSS_ENTROPY", &config));
  return *PlanNetwork(config, input);
}

const InputSpec kImages = LabelledImages({2, 3}, 4);
constexpr char kDense[] =
    "layers { flatten {} } layers { dense { units: 4 } } ";
constexpr char kDropout[] = "layers { dropout { rate: 0.5 } } ";

std::string Text(const HloType& type) { return type.text(); }

TEST(NetworkProgramTest, ParametersAndResultsAreInTheOrderThatIsSaid) {
  const auto plan = PlanOf(std::string(kDropout) + kDense, kImages);
  const NetworkProgram program =
      *WriteProgram(*plan, {.examples = 5, .training = true});
  std::vector<std::string> parameters, results;
  for (const HloType& type : program.parameters) {
    parameters.push_back(Text(type));
  }
  for (const HloType& type : program.results) results.push_back(Text(type));
  EXPECT_THAT(parameters,
              ElementsAre("tensor<6x4xf32>", "tensor<4xf32>",
                          "tensor<5x2x3xf32>", "tensor<5xi32>", "tensor<f32>",
                          "tensor<f32>", "tensor<5xui64>", "tensor<ui64>"));
  EXPECT_THAT(results, ElementsAre("tensor<5x4xf32>", "tensor<4xf32>",
                                   "tensor<6x4xf32>"));
  EXPECT_THAT(program.draws, ElementsAre("dropout_1"));
}

TEST(NetworkProgramTest, EachFeatureIsAParameter) {
  const InputSpec several{
      {{.name = "numbers", .dtype = DType::kFloat32, .dims = {3}},
       {.name = "ids", .dtype = DType::kInt32, .dims = {2}, .classes = 9},
       {.name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 4}}};
  const auto plan = PlanOf(
      "layers { parallel { branches { input: 'ids' layers { embedding { width: "
      "2 } } layers { flatten {} } } branches { input: 'numbers' } } } "
      "layers { dense { units: 4 } } ",
      several);
  const NetworkProgram program = *WriteProgram(*plan, {.examples = 5});
  std::vector<std::string> parameters;
  for (const HloType& type : program.parameters) {
    parameters.push_back(Text(type));
  }
  EXPECT_THAT(parameters,
              ElementsAre("tensor<9x2xf32>", "tensor<7x4xf32>", "tensor<4xf32>",
                          "tensor<10xi32>", "tensor<5x3xf32>"));
}

TEST(NetworkProgramTest, WhatIsUsedAloneDropsNothingAndReadsNoLabel) {
  const auto plan = PlanOf(std::string(kDropout) + kDense, kImages);
  const NetworkProgram program = *WriteProgram(*plan, {.examples = 5});
  EXPECT_EQ(program.parameters.size(), 3u);
  EXPECT_EQ(program.results.size(), 1u);
  EXPECT_TRUE(program.draws.empty());
  EXPECT_THAT(program.text, Not(HasSubstr("xor")));
}

TEST(NetworkProgramTest, OfASparseVariableAProgramTakesAsManyRowsAsAreSaid) {
  const InputSpec keys{
      {{.name = "keys", .dtype = DType::kInt64, .dims = {3}},
       {.name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 4}}};
  const auto plan = PlanOf(
      std::string("layers { embedding { width: 2 sparse: true capacity: 100 } "
                  "} ") +
          kDense,
      keys);
  const NetworkProgram program =
      *WriteProgram(*plan, {.examples = 5, .rows = 64, .training = true});
  EXPECT_EQ(Text(program.parameters.front()), "tensor<64x2xf32>");
  EXPECT_EQ(Text(program.parameters[3]), "tensor<15xi32>");
  EXPECT_EQ(Text(program.results.back()), "tensor<64x2xf32>");
}

}  // namespace
}  // namespace paramd
