#include "compute/onnx/write_layers.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/onnx/testing/written_model.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

const FeatureSpec kValues = {"x", DType::kFloat32, {6}};
const FeatureSpec kPlaces = {"x", DType::kFloat32, {4, 6}};
const FeatureSpec kImage = {"x", DType::kFloat32, {7, 6, 4}};
const FeatureSpec kIds = {"ids", DType::kInt32, {4}, 20};

// A kind of layer, what it reads, and the operators that it becomes.
struct Case {
  std::string layers;
  FeatureSpec input;
  std::string operators;
  int opset = kLeastOpset;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.layers; }

class LayerKindsTest : public ::testing::TestWithParam<Case> {};

TEST_P(LayerKindsTest, BecomesTheseOperators) {
  const OnnxNetwork network(OnnxModelOf(GetParam().layers),
                            OnnxInputOf({GetParam().input}));
  EXPECT_EQ(OperatorsOf(network.Write(GetParam().opset)), GetParam().operators);
}

constexpr char kDenseThree[] =
    " layers { flatten {} } layers { dense { units: 3 } }";

std::string BeforeDense(const std::string& layers) {
  return layers + kDenseThree;
}

INSTANTIATE_TEST_SUITE_P(
    OfVectors, LayerKindsTest,
    ::testing::Values(
        Case{"layers { dense { units: 3 } }", kValues, "Gemm Softmax"},
        Case{"layers { dense { units: 5 } } layers { relu {} }"
             "layers { dense { units: 3 } }",
             kValues, "Gemm Relu Gemm Softmax"},
        Case{"layers { dense { units: 3 } } layers { tanh {} }", kValues,
             "Gemm Tanh Softmax"},
        Case{"layers { dense { units: 3 } } layers { sigmoid {} }", kValues,
             "Gemm Sigmoid Softmax"},
        Case{"layers { dense { units: 3 } } layers { gelu {} }", kValues,
             "Gemm Div Erf Add Mul Mul Softmax"},
        Case{"layers { dense { units: 3 } } layers { dropout { rate: 0.5 } }",
             kValues, "Gemm Softmax"},
        Case{"layers { batch_norm { epsilon: 1e-3 } }"
             "layers { dense { units: 3 } }",
             kValues, "BatchNormalization Gemm Softmax"},
        Case{"layers { cross { layers: 2 } } layers { dense { units: 3 } }",
             kValues, "Gemm Mul Add Gemm Mul Add Gemm Softmax"},
        Case{"layers { residual { layers { dense { units: 6 } } } }"
             "layers { dense { units: 3 } }",
             kValues, "Gemm Add Gemm Softmax"},
        Case{"layers { recompute { layers { dense { units: 3 } } } }", kValues,
             "Gemm Softmax"},
        Case{"layers { parallel { branches { layers { dense { units: 2 } } }"
             "branches {} } } layers { dense { units: 3 } }",
             kValues, "Gemm Concat Gemm Softmax"},
        Case{"layers { parallel { merge: SUM "
             "branches { layers { dense { units: 3 } } }"
             "branches { layers { dense { units: 3 } } } } }",
             kValues, "Gemm Gemm Add Softmax"},
        Case{"layers { mixture { gates: 1 "
             "experts { layers { dense { units: 3 } } }"
             "experts { layers { dense { units: 3 } } } } }"
             "layers { flatten {} }",
             kValues,
             "Gemm Gemm Gemm Concat Split Reshape Softmax Reshape MatMul "
             "Reshape Softmax"}));

INSTANTIATE_TEST_SUITE_P(
    OfPlaces, LayerKindsTest,
    ::testing::Values(
        Case{BeforeDense("layers { dense { units: 5 } }"), kPlaces,
             "MatMul Add Reshape Gemm Softmax"},
        Case{BeforeDense("layers { layer_norm { epsilon: 1e-5 } }"), kPlaces,
             "ReduceMean Sub Mul ReduceMean Add Sqrt Div Mul Add Reshape Gemm "
             "Softmax"},
        Case{BeforeDense("layers { layer_norm { epsilon: 1e-5 } }"), kPlaces,
             "LayerNormalization Reshape Gemm Softmax", 17},
        Case{BeforeDense("layers { batch_norm { epsilon: 1e-5 } }"), kPlaces,
             "Transpose BatchNormalization Transpose Reshape Gemm Softmax"},
        Case{BeforeDense("layers { positional_embedding {} }"), kPlaces,
             "Add Reshape Gemm Softmax"},
        Case{BeforeDense("layers { attention { heads: 2 } }"), kPlaces,
             "MatMul Add Split Reshape Transpose Reshape Transpose MatMul Mul "
             "Softmax Reshape Transpose MatMul Transpose Reshape MatMul Add "
             "Reshape Gemm Softmax"},
        Case{BeforeDense("layers { attention { heads: 2 causal: true } }"),
             kPlaces,
             "MatMul Add Split Reshape Transpose Reshape Transpose MatMul Mul "
             "Add Softmax Reshape Transpose MatMul Transpose Reshape MatMul "
             "Add Reshape Gemm Softmax"},
        Case{BeforeDense("layers { select { begin: 1 count: 2 } }"), kPlaces,
             "Slice Reshape Gemm Softmax"},
        Case{BeforeDense("layers { global_max_pool {} }"), kPlaces,
             "ReduceMax Gemm Softmax"},
        Case{BeforeDense("layers { global_average_pool {} }"), kPlaces,
             "ReduceMean Gemm Softmax"},
        Case{BeforeDense("layers { global_sum_pool {} }"), kPlaces,
             "ReduceSum Gemm Softmax"},
        Case{BeforeDense("layers { bag_pool { combine: SUM } }"), kPlaces,
             "ReduceSum Gemm Softmax"},
        Case{BeforeDense("layers { bag_pool { combine: MEAN } }"), kPlaces,
             "Equal Not Cast ReduceMax ReduceSum Max ReduceSum Div Gemm "
             "Softmax"},
        Case{BeforeDense("layers { bag_pool { combine: SQRT_N } }"), kPlaces,
             "Equal Not Cast ReduceMax ReduceSum Max Sqrt ReduceSum Div Gemm "
             "Softmax"},
        Case{BeforeDense("layers { bag_pool { combine: MAX } }"), kPlaces,
             "Equal Not Cast ReduceMax ReduceSum Greater Where ReduceMax "
             "Greater Where Gemm Softmax"},
        Case{
            BeforeDense("layers { attention_pool { units: 5 } }"), kPlaces,
            "Slice Slice Shape Expand Sub Mul Concat MatMul Add Sigmoid MatMul "
            "Add Transpose MatMul Concat Reshape Gemm Softmax"},
        Case{BeforeDense("layers { dot_interaction {} }"), kPlaces,
             "Transpose MatMul Reshape Gather Gemm Softmax"},
        Case{BeforeDense("layers { factorization_machine {} }"), kPlaces,
             "Transpose MatMul Reshape Gather Reshape ReduceSum Gemm Softmax"},
        Case{BeforeDense("layers { embedding { width: 5 } }"), kIds,
             "Gather Reshape Gemm Softmax"},
        Case{BeforeDense("layers { embedding { width: 5 padding: true } }"),
             kIds, "Max Gather Less Unsqueeze Where Reshape Gemm Softmax"},
        Case{BeforeDense("layers { select { count: 2 } }"
                         "layers { embedding { width: 5 } }"),
             kIds, "Slice Gather Reshape Gemm Softmax"}));

constexpr char kConvolution[] =
    "layers { conv2d { filters: 8 kernel: 3 stride: 1 groups: 1 padding: SAME "
    "bias: true } }";

INSTANTIATE_TEST_SUITE_P(
    OfImages, LayerKindsTest,
    ::testing::Values(
        Case{BeforeDense(kConvolution), kImage,
             "Transpose Conv Transpose Reshape Gemm Softmax"},
        // Images stay as ONNX has them from layer to layer.
        Case{BeforeDense(std::string(kConvolution) +
                         "layers { batch_norm { epsilon: 1e-5 } }"
                         "layers { relu {} }"
                         "layers { max_pool { size: 2 padding: VALID } }" +
                         kConvolution + "layers { global_average_pool {} }"),
             kImage,
             "Transpose Conv BatchNormalization Relu MaxPool Conv "
             "GlobalAveragePool Flatten Gemm Softmax"},
        Case{BeforeDense(std::string(kConvolution) +
                         "layers { global_max_pool {} }"),
             kImage, "Transpose Conv GlobalMaxPool Flatten Gemm Softmax"},
        Case{BeforeDense("layers { average_pool { size: 2 padding: SAME } }"),
             kImage, "Transpose AveragePool Transpose Reshape Gemm Softmax"},
        // Nothing to turn with a single channel.
        Case{BeforeDense(kConvolution),
             {"x", DType::kFloat32, {7, 6}},
             "Reshape Conv Transpose Reshape Gemm Softmax"},
        // One branch turned, the other not.
        Case{BeforeDense("layers { residual { layers { conv2d { filters: 4 "
                         "kernel: 3 stride: 1 groups: 1 padding: SAME } } } }"),
             kImage, "Transpose Conv Transpose Add Reshape Gemm Softmax"}));

TEST(WriteLayersTest, AWindowLiesWhereOursDoes) {
  // 7 places by strides of 2 are 4, with one of padding on each side; 6 are 3,
  // with one behind.
  const OnnxNetwork network(
      OnnxModelOf(BeforeDense("layers { conv2d { filters: 8 kernel: 3 stride: "
                              "2 groups: 2 padding: SAME bias: false } }")),
      OnnxInputOf({kImage}));
  const onnx::ModelProto model = network.Write();
  const onnx::NodeProto& convolution = *FindNode(model, "Conv");
  EXPECT_EQ(convolution.input_size(), 2);
  EXPECT_THAT(IntsOf(convolution, "pads"), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(IntsOf(convolution, "strides"), ElementsAre(2, 2));
  EXPECT_THAT(IntsOf(convolution, "kernel_shape"), ElementsAre(3, 3));
  const onnx::TensorProto& kernel = *FindConstant(model, "conv2d_1/kernel");
  EXPECT_THAT(kernel.dims(), ElementsAre(8, 2, 3, 3));
  // [height, width, inputs, outputs] before.
  const auto values = ConstantValues<float>(kernel);
  EXPECT_EQ(values[0], network.weights[0][0]);
  EXPECT_EQ(values[1], network.weights[0][2 * 8]);
  EXPECT_EQ(values[9], network.weights[0][8]);
  EXPECT_EQ(values[18], network.weights[0][1]);
}

TEST(WriteLayersTest, LayersOfOneNameShareOneConstant) {
  const OnnxNetwork network(
      OnnxModelOf("layers { dense { units: 6 name: 'one' } }"
                  "layers { dense { units: 6 name: 'one' } }"
                  "layers { dense { units: 3 } }"),
      OnnxInputOf({kValues}));
  const onnx::ModelProto model = network.Write();
  EXPECT_EQ(model.graph().initializer_size(), 4);
  EXPECT_EQ(model.graph().node(0).input(1), "one/kernel");
  EXPECT_EQ(model.graph().node(1).input(1), "one/kernel");
  EXPECT_NE(model.graph().node(0).name(), model.graph().node(1).name());
}

TEST(WriteLayersTest, APlaceSeesNoneBehindItInCausalAttention) {
  const OnnxNetwork network(
      OnnxModelOf(
          BeforeDense("layers { attention { heads: 1 causal: true } }")),
      OnnxInputOf({{"x", DType::kFloat32, {2, 2}}}));
  const auto mask = ConstantValues<float>(
      *FindConstant(network.Write(), "attention_1/ahead"));
  EXPECT_THAT(mask,
              ElementsAre(0, -std::numeric_limits<float>::infinity(), 0, 0));
}

}  // namespace
}  // namespace paramd
