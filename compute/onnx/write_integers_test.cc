#include "compute/onnx/write_integers.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/onnx/testing/written_model.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

using Mode = Quantization::Mode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::StartsWith;

// A convolution with its batch norm, a pool, a dense layer, another one.
OnnxNetwork Images() {
  return OnnxNetwork(OnnxModelOf(R"pb(
                       layers {
                         conv2d {
                           filters: 8
                           kernel: 3
                           stride: 1
                           groups: 1
                           padding: SAME
                           bias: false
                         }
                       }
                       layers { batch_norm { epsilon: 1e-5 } }
                       layers { relu {} }
                       layers { max_pool { size: 2 padding: VALID } }
                       layers { flatten {} }
                       layers { dense { units: 5 } }
                       layers { relu {} }
                       layers { dense { units: 3 } }
                     )pb"),
                     OnnxInputOf({{"x", DType::kFloat32, {4, 4, 4}}}));
}

// Of a network what a quantised checkpoint of it could have: each weight is
// 2 scales.
OnnxIntegers IntegersOf(const OnnxNetwork& network, Mode mode,
                        bool per_channel = true) {
  OnnxIntegers made;
  made.quantization.mode = mode;
  for (const FoundProduct& product :
       FindProducts(*network.plan, mode).products) {
    Quantization::Layer& one = made.quantization.layers.emplace_back();
    one.name = product.name;
    one.kind = std::string(NameOf(product.kind));
    if (product.batch_norm.has_value()) {
      one.folded = product.At(*product.batch_norm).name();
    }
    if (mode == Mode::kStatic) one.input = Quantization::Input{0.5f, 0};
    const v1::Variable& kernel = product.kernel_variable();
    const Dims dims(kernel.shape().begin(), kernel.shape().end());
    IntegerTensor& tensor = made.tensors[kernel.name()];
    tensor.values.assign(SizeOf(dims), 2);
    tensor.scales.assign(per_channel ? dims.back() : 1, 0.25f);
  }
  return made;
}

TEST(WriteIntegersTest, StaticRangesLieAroundEachProduct) {
  const OnnxNetwork network = Images();
  const OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  const onnx::ModelProto model = network.Write(kLeastOpset, &integers);
  // Behind a relu that integers follow, they begin at once.
  EXPECT_EQ(OperatorsOf(model),
            "Transpose QuantizeLinear DequantizeLinear DequantizeLinear "
            "DequantizeLinear Conv Relu QuantizeLinear DequantizeLinear "
            "MaxPool Transpose Reshape QuantizeLinear DequantizeLinear "
            "DequantizeLinear DequantizeLinear Gemm Relu QuantizeLinear "
            "DequantizeLinear DequantizeLinear DequantizeLinear Gemm Softmax");
}

TEST(WriteIntegersTest, AFloatReluIsBehindThePoolThatIntegersFollow) {
  const std::string convolution =
      "layers { conv2d { filters: 8 kernel: 3 stride: 1 groups: 1 padding: "
      "SAME } } layers { relu {} } "
      "layers { max_pool { size: 2 padding: VALID } } ";
  const OnnxNetwork network(
      OnnxModelOf(convolution + convolution +
                  "layers { flatten {} } layers { dense { units: 3 } }"),
      OnnxInputOf({{"x", DType::kFloat32, {8, 8}}}));
  const OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  EXPECT_THAT(OperatorsOf(network.Write(kLeastOpset, &integers)),
              StartsWith("Reshape Conv MaxPool Relu QuantizeLinear "
                         "DequantizeLinear DequantizeLinear Conv Relu "
                         "QuantizeLinear DequantizeLinear MaxPool"));
  EXPECT_THAT(OperatorsOf(network.Write()),
              StartsWith("Reshape Conv Relu MaxPool Conv Relu MaxPool"));
}

TEST(WriteIntegersTest, WeightsAreOfEachOutputsScale) {
  const OnnxNetwork network = Images();
  const OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  const onnx::ModelProto model = network.Write(kLeastOpset, &integers);
  const onnx::TensorProto& kernel = *FindConstant(model, "conv2d_1/kernel");
  EXPECT_EQ(kernel.data_type(), onnx::TensorProto::INT8);
  EXPECT_THAT(kernel.dims(), ElementsAre(8, 4, 3, 3));
  EXPECT_THAT(ConstantValues<int8_t>(kernel), Each(2));
  EXPECT_THAT(FindConstant(model, "conv2d_1/kernel/scales")->dims(),
              ElementsAre(8));
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.input(0) == "conv2d_1/kernel") {
      EXPECT_EQ(node.attribute(0).i(), 0);
    }
    if (node.input(0) == "dense_1/kernel") {
      EXPECT_EQ(node.attribute(0).i(), 1);
    }
  }
  // The batch norm is in the weights.
  EXPECT_EQ(FindConstant(model, "batch_norm_1/scale"), nullptr);
}

TEST(WriteIntegersTest, OneScaleOfALayerIsAScalar) {
  const OnnxNetwork network = Images();
  const OnnxIntegers integers = IntegersOf(network, Mode::kStatic, false);
  const onnx::ModelProto model = network.Write(kLeastOpset, &integers);
  EXPECT_EQ(FindConstant(model, "conv2d_1/kernel/scales")->dims_size(), 0);
}

TEST(WriteIntegersTest, ABiasIsMultiplesOfTheProductsScale) {
  const OnnxNetwork network = Images();
  const OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  const onnx::ModelProto model = network.Write(kLeastOpset, &integers);
  const auto bias =
      ConstantValues<int32_t>(*FindConstant(model, "dense_1/bias"));
  const auto& as_float = network.weights[network.plan->shared[6]];
  ASSERT_EQ(bias.size(), as_float.size());
  for (size_t c = 0; c < bias.size(); ++c) {
    EXPECT_EQ(bias[c], std::nearbyint(as_float[c] / 0.125));
  }
}

TEST(WriteIntegersTest, ABiasBeyond32BitsStaysFloat) {
  OnnxNetwork network = Images();
  network.weights[network.plan->shared[6]][1] = 1e9f;
  const OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  const onnx::ModelProto model = network.Write(kLeastOpset, &integers);
  EXPECT_EQ(FindConstant(model, "dense_1/bias")->data_type(),
            onnx::TensorProto::FLOAT);
}

TEST(WriteIntegersTest, IntegersOf16BitsAreRefusedByName) {
  const OnnxNetwork network = Images();
  OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  EXPECT_TRUE(CheckFitsOnnx(*network.plan, &integers).ok());
  integers.quantization.activation_bits = 16;
  const absl::Status refused = CheckFitsOnnx(*network.plan, &integers);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "the checkpoint's layers get integers of 16 bits, which ONNX "
            "quantises to from opset 21 on: quantise the model again without "
            "--activation_bits for ONNX, whose opsets here are 13 to 17");
}

TEST(WriteIntegersTest, DynamicRangesAreFoundWhereItRuns) {
  const OnnxNetwork network(
      OnnxModelOf("layers { dense { units: 5 } } layers { relu {} }"
                  "layers { dense { units: 3 } }"),
      OnnxInputOf({{"x", DType::kFloat32, {6}}}));
  const OnnxIntegers integers = IntegersOf(network, Mode::kDynamic);
  EXPECT_EQ(OperatorsOf(network.Write(kLeastOpset, &integers)),
            "DynamicQuantizeLinear MatMulInteger Mul Cast Mul Add Relu "
            "DynamicQuantizeLinear MatMulInteger Mul Cast Mul Add Softmax");
}

TEST(WriteIntegersTest, ProductsInsideOfOtherLayersAreIntegersToo) {
  const OnnxNetwork network(
      OnnxModelOf(R"pb(
        layers {
          residual {
            layers { dense { units: 6 } }
            layers { relu {} }
            layers { recompute { layers { dense { units: 6 } } } }
          }
        }
        layers { dense { units: 3 } }
      )pb"),
      OnnxInputOf({{"x", DType::kFloat32, {6}}}));
  const OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  ASSERT_EQ(integers.quantization.layers.size(), 3);
  const std::string product =
      "QuantizeLinear DequantizeLinear DequantizeLinear DequantizeLinear Gemm ";
  EXPECT_EQ(OperatorsOf(network.Write(kLeastOpset, &integers)),
            product + "Relu " + product + "Add " + product + "Softmax");
  const OnnxIntegers dynamic = IntegersOf(network, Mode::kDynamic);
  const std::string found =
      "DynamicQuantizeLinear MatMulInteger Mul Cast Mul Add ";
  EXPECT_EQ(OperatorsOf(network.Write(kLeastOpset, &dynamic)),
            found + "Relu " + found + "Add " + found + "Softmax");
}

TEST(WriteIntegersTest, TheProjectionsOfAttentionAreIntegers) {
  const OnnxNetwork network(
      OnnxModelOf("layers { residual { layers { attention { heads: 2 } } } }"
                  "layers { flatten {} } layers { dense { units: 3 } }"),
      OnnxInputOf({{"x", DType::kFloat32, {5, 4}}}));
  const OnnxIntegers integers = IntegersOf(network, Mode::kDynamic);
  const onnx::ModelProto model = network.Write(kLeastOpset, &integers);
  const auto* const kernel =
      FindConstant(model, "attention_1/projection/kernel");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->data_type(), onnx::TensorProto::INT8);
  EXPECT_THAT(kernel->dims(), ElementsAre(4, 12));
  EXPECT_EQ(FindConstant(model, "attention_1/output/kernel")->data_type(),
            onnx::TensorProto::INT8);
  EXPECT_EQ(FindConstant(model, "attention_1/scale")->data_type(),
            onnx::TensorProto::FLOAT);
  const OnnxIntegers of_static = IntegersOf(network, Mode::kStatic);
  EXPECT_EQ(FindConstant(network.Write(kLeastOpset, &of_static),
                         "attention_1/output/kernel")
                ->data_type(),
            onnx::TensorProto::INT8);
}

TEST(WriteIntegersTest, HalvesAreMadeFloatsOf) {
  for (const auto& [mode, type] :
       {std::pair{Mode::kFloat16, onnx::TensorProto::FLOAT16},
        {Mode::kBFloat16, onnx::TensorProto::BFLOAT16}}) {
    const OnnxNetwork network(OnnxModelOf("layers { dense { units: 3 } }"),
                              OnnxInputOf({{"x", DType::kFloat32, {6}}}));
    OnnxIntegers halves;
    halves.quantization.mode = mode;
    const onnx::ModelProto model = network.Write(kLeastOpset, &halves);
    EXPECT_EQ(OperatorsOf(model), "Cast Gemm Softmax");
    EXPECT_EQ(FindConstant(model, "dense_1/kernel")->data_type(), type);
    EXPECT_EQ(FindConstant(model, "dense_1/kernel")->raw_data().size(), 36u);
    EXPECT_EQ(FindConstant(model, "dense_1/bias")->data_type(),
              onnx::TensorProto::FLOAT);
  }
}

TEST(WriteIntegersTest, IntegersOfAnotherNetworkAreRefused) {
  const OnnxNetwork network = Images();
  OnnxIntegers integers = IntegersOf(network, Mode::kStatic);
  integers.quantization.layers[0].name = "conv2d_9";
  EXPECT_TRUE(absl::IsInvalidArgument(
      WriteOnnxModel(*network.plan, network.spans(), &integers, {}).status()));
  integers = IntegersOf(network, Mode::kStatic);
  integers.tensors["conv2d_1/kernel"].values.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(
      WriteOnnxModel(*network.plan, network.spans(), &integers, {}).status()));
}

}  // namespace
}  // namespace paramd
