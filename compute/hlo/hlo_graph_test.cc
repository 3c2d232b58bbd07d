#include "compute/hlo/hlo_graph.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/hlo/hlo_ops.h"
#include "compute/hlo/hlo_windows.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HloGraphTest, AProgramIsWrittenAsStableHlo) {
  HloGraph graph;
  const HloValue a = graph.Parameter({HloElement::kF32, {2, 3}});
  const HloValue b = graph.Parameter({HloElement::kF32, {3, 4}});
  EXPECT_EQ(
      graph.Text({hlo::Multiply2d(a, b)}),
      "module @paramd {\n"
      "  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: "
      "tensor<3x4xf32>) -> (tensor<2x4xf32>) {\n"
      "    %2 = \"stablehlo.dot_general\"(%arg0, %arg1) "
      "<{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], "
      "rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], "
      "rhs_contracting_dimensions = [0]>, precision_config = "
      "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : "
      "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n"
      "    return %2 : tensor<2x4xf32>\n"
      "  }\n"
      "}\n");
}

TEST(HloGraphTest, OperandsOfProductsAndConvolutionsAreConverted) {
  HloGraph graph;
  graph.set_operands(HloElement::kBF16);
  const HloValue a = graph.Parameter({HloElement::kF32, {2, 3}});
  const HloValue b = graph.Parameter({HloElement::kF32, {3, 4}});
  const HloValue product = hlo::Multiply2d(a, b);
  const std::string text = graph.Text({product});
  EXPECT_THAT(text, HasSubstr("\"stablehlo.convert\"(%arg0) : "
                              "(tensor<2x3xf32>) -> tensor<2x3xbf16>"));
  EXPECT_THAT(text, HasSubstr("(tensor<2x3xbf16>, tensor<3x4xbf16>) -> "
                              "tensor<2x4xf32>"));
  EXPECT_THAT(graph.Text({hlo::Multiply2d(a, b, /*exact=*/true)}),
              Not(HasSubstr("bf16")));
  // The gradient passes through.
  const std::vector<HloValue> gradients =
      graph.Gradients(product, hlo::FilledLike(product, 1), {a, b});
  EXPECT_EQ(gradients[0].type().text(), a.type().text());
  EXPECT_THAT(graph.Text(gradients),
              HasSubstr("(tensor<2x4xbf16>, tensor<4x3xbf16>) -> "
                        "tensor<2x3xf32>"));

  const HloValue images = graph.Parameter({HloElement::kF32, {1, 4, 4, 2}});
  const HloValue kernel = graph.Parameter({HloElement::kF32, {1, 1, 2, 3}});
  const Convolution shape = {.window = {.batch = 1,
                                        .height = 4,
                                        .width = 4,
                                        .channels = 2,
                                        .out_height = 4,
                                        .out_width = 4},
                             .outputs = 3};
  EXPECT_THAT(graph.Text({hlo::Convolve(shape, images, kernel)}),
              HasSubstr("(tensor<1x4x4x2xbf16>, tensor<1x1x2x3xbf16>) -> "
                        "tensor<1x4x4x3xf32>"));
}

TEST(HloGraphTest, WhatNoResultNeedsIsLeftOut) {
  HloGraph graph;
  const HloValue a = graph.Parameter({HloElement::kF32, {2}});
  hlo::Tanh(a);
  const std::string text = graph.Text({hlo::Exp(a)});
  EXPECT_THAT(text, HasSubstr("exponential"));
  EXPECT_THAT(text, Not(HasSubstr("tanh")));
}

TEST(HloGraphTest, AGradientIsOfTheTypeOfWhatItIsBy) {
  HloGraph graph;
  const HloValue a = graph.Parameter({HloElement::kF32, {5, 2, 3}});
  const HloValue matrix = graph.Parameter({HloElement::kF32, {3, 4}});
  const HloValue row = graph.Parameter({HloElement::kF32, {4}});
  const HloValue out = hlo::Softmax(hlo::Affine(a, matrix, row));
  const std::vector<HloValue> gradients =
      graph.Gradients(out, hlo::FilledLike(out, 1), {a, matrix, row});
  ASSERT_EQ(gradients.size(), 3u);
  EXPECT_EQ(gradients[0].type().text(), a.type().text());
  EXPECT_EQ(gradients[1].type().text(), matrix.type().text());
  EXPECT_EQ(gradients[2].type().text(), row.type().text());
}

TEST(HloGraphTest, WhatAResultDoesNotDependOnHasZerosForAGradient) {
  HloGraph graph;
  const HloValue a = graph.Parameter({HloElement::kF32, {2}});
  const HloValue b = graph.Parameter({HloElement::kF32, {2}});
  const HloValue out = hlo::Exp(a);
  const std::vector<HloValue> gradients =
      graph.Gradients(out, hlo::FilledLike(out, 1), {b});
  EXPECT_THAT(graph.Text(gradients),
              HasSubstr("value = dense<0.000000000e+00> : tensor<2xf32>"));
}

TEST(HloGraphTest, PartsOfAGradientAdd) {
  HloGraph graph;
  const HloValue a = graph.Parameter({HloElement::kF32, {2}});
  const HloValue out = hlo::Multiply(a, a);
  const std::vector<HloValue> gradients =
      graph.Gradients(out, hlo::FilledLike(out, 1), {a});
  EXPECT_THAT(graph.Text(gradients), HasSubstr("stablehlo.add"));
}

TEST(HloGraphTest, IntegersHaveNoGradient) {
  HloGraph graph;
  const HloValue table = graph.Parameter({HloElement::kF32, {7, 2}});
  const HloValue places = graph.Parameter({HloElement::kS32, {3}});
  const HloValue rows = hlo::Gather(table, places);
  const std::vector<HloValue> gradients =
      graph.Gradients(rows, hlo::FilledLike(rows, 1), {table});
  EXPECT_THAT(graph.Text(gradients), HasSubstr("stablehlo.scatter"));
}

TEST(HloWindowsTest, GradientsOfAConvolutionAreConvolutions) {
  HloGraph graph;
  const Convolution shape = {.window = {.batch = 2,
                                        .height = 7,
                                        .width = 6,
                                        .channels = 4,
                                        .out_height = 3,
                                        .out_width = 3,
                                        .kernel_height = 2,
                                        .kernel_width = 2,
                                        .stride_height = 2,
                                        .stride_width = 2},
                             .outputs = 6,
                             .groups = 2};
  const HloValue input = graph.Parameter({HloElement::kF32, {2, 7, 6, 4}});
  const HloValue kernel = graph.Parameter({HloElement::kF32, {2, 2, 2, 6}});
  const HloValue out = hlo::Convolve(shape, input, kernel);
  const std::vector<HloValue> gradients =
      graph.Gradients(out, hlo::FilledLike(out, 1), {input, kernel});
  EXPECT_EQ(gradients[0].type().text(), input.type().text());
  EXPECT_EQ(gradients[1].type().text(), kernel.type().text());
  EXPECT_THAT(graph.Text(gradients), HasSubstr("batch_group_count = 2"));
}

}  // namespace
}  // namespace paramd
