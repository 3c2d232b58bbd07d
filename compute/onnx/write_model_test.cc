#include "compute/onnx/write_model.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "compute/onnx/onnx_graph.h"
#include "compute/onnx/testing/written_model.h"

namespace paramd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const FeatureSpec kNumbers = {"x", DType::kFloat32, {6}};
constexpr char kThree[] = "layers { dense { units: 3 } }";

OnnxNetwork Simple() {
  return OnnxNetwork(OnnxModelOf(kThree), OnnxInputOf({kNumbers}));
}

// [batch, ...] of a value that is handed in or out.
std::string ShapeOfValue(const onnx::ValueInfoProto& value) {
  std::string text = value.name();
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    text += " " + (dim.has_dim_param() ? dim.dim_param()
                                       : std::to_string(dim.dim_value()));
  }
  return text;
}

TEST(WriteModelTest, SaysWhatItReadsAndGives) {
  const onnx::ModelProto model = Simple().Write();
  EXPECT_EQ(ShapeOfValue(model.graph().input(0)), "x batch 6");
  EXPECT_EQ(ShapeOfValue(model.graph().output(0)), "prediction batch 3");
  EXPECT_EQ(model.graph().input_size(), 1);
  EXPECT_EQ(model.graph().output_size(), 1);
}

TEST(WriteModelTest, SaysWhereItIsFrom) {
  const onnx::ModelProto model = Simple().Write();
  EXPECT_EQ(model.producer_name(), "paramd");
  EXPECT_EQ(model.producer_version(), "0.1");
  EXPECT_EQ(model.model_version(), 12);
  EXPECT_EQ(model.graph().name(), "job");
  ASSERT_EQ(model.metadata_props_size(), 1);
  EXPECT_EQ(model.metadata_props(0).key(), "paramd.step");
  EXPECT_EQ(model.metadata_props(0).value(), "12");
}

TEST(WriteModelTest, TheSameNetworkGivesTheSameBytes) {
  const OnnxNetwork network = Simple();
  const auto once = WriteOnnxModel(*network.plan, network.spans(), nullptr, {});
  const auto again =
      WriteOnnxModel(*network.plan, network.spans(), nullptr, {});
  ASSERT_TRUE(once.ok());
  EXPECT_EQ(*once, *again);
}

TEST(WriteModelTest, EveryOpsetIsWritten) {
  for (int opset = kLeastOpset; opset <= kMostOpset; ++opset) {
    const onnx::ModelProto model = Simple().Write(opset);
    EXPECT_EQ(model.opset_import(0).version(), opset);
    EXPECT_EQ(model.ir_version(), opset < 15 ? 7 : 8);
  }
}

TEST(WriteModelTest, ValuesAreFollowedByWhatTheLossMakesOfThem) {
  const std::string one = "layers { dense { units: 1 } }";
  for (const auto& [loss, operators] :
       {std::pair{v1::BINARY_CROSS_ENTROPY, "Gemm Sigmoid"},
        {v1::MEAN_SQUARED_ERROR, "Gemm"}}) {
    v1::ModelConfig config = OnnxModelOf(one);
    config.set_loss(loss);
    InputSpec input;
    input.features = {kNumbers, {"label", DType::kFloat32, {}}};
    EXPECT_EQ(OperatorsOf(OnnxNetwork(config, input).Write()), operators);
  }
}

TEST(WriteModelTest, OfALossOverABatchAPredictionIsThePairsProduct) {
  v1::ModelConfig config = OnnxModelOf("layers { dense { units: 3 } }");
  config.set_loss(v1::IN_BATCH_SOFTMAX);
  InputSpec input;
  input.features = {{"x", DType::kFloat32, {2, 6}},
                    {"label", DType::kInt64, {}}};
  const OnnxNetwork network(config, input);
  for (const int opset : {kLeastOpset, kMostOpset}) {
    const onnx::ModelProto model = network.Write(opset);
    const onnx::NodeProto* const product = FindNode(model, "ReduceProd");
    ASSERT_NE(product, nullptr);
    EXPECT_THAT(IntsOf(*product, "axes"), ElementsAre(1));
    const onnx::NodeProto* const sum = FindNode(model, "ReduceSum");
    ASSERT_NE(sum, nullptr);
    EXPECT_EQ(sum->input(0), product->output(0));
    ASSERT_EQ(model.graph().output_size(), 1);
    EXPECT_EQ(ShapeOfValue(model.graph().output(0)), "prediction batch 1");
  }
}

TEST(WriteModelTest, BranchesReadFeaturesOfTheirOwn) {
  const OnnxNetwork network(
      OnnxModelOf(R"pb(
        layers {
          parallel {
            branches {
              input: "ids"
              layers { embedding { width: 5 } }
            }
            branches {
              input: "x"
              layers { dense { units: 4 } }
            }
          }
        }
        layers { dense { units: 3 } }
      )pb"),
      OnnxInputOf({kNumbers, {"ids", DType::kInt32, {4}, 20}}));
  const onnx::ModelProto model = network.Write();
  ASSERT_EQ(model.graph().input_size(), 2);
  EXPECT_EQ(model.graph().input(0).name(), "ids");
  EXPECT_EQ(model.graph().input(0).type().tensor_type().elem_type(),
            onnx::TensorProto::INT32);
  EXPECT_EQ(model.graph().input(1).name(), "x");
  EXPECT_EQ(OperatorsOf(model), "Gather Gemm Reshape Concat Gemm Softmax");
}

TEST(WriteModelTest, EachOutputOfSeveralHasItsName) {
  v1::ModelConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        layers { dense { units: 4 } }
        outputs {
          name: "click"
          label: "click"
          loss: BINARY_CROSS_ENTROPY
          layers { dense { units: 1 } }
        }
        outputs {
          name: "stars"
          label: "stars"
          loss: SOFTMAX_CROSS_ENTROPY
          layers { relu {} }
          layers { dense { units: 5 } }
        }
      )pb",
      &config));
  InputSpec input;
  input.features = {kNumbers,
                    {"click", DType::kFloat32, {}},
                    {"stars", DType::kInt32, {}, 5}};
  const onnx::ModelProto model = OnnxNetwork(config, input).Write();
  ASSERT_EQ(model.graph().output_size(), 2);
  EXPECT_EQ(ShapeOfValue(model.graph().output(0)), "click batch 1");
  EXPECT_EQ(ShapeOfValue(model.graph().output(1)), "stars batch 5");
  EXPECT_EQ(OperatorsOf(model), "Gemm Gemm Sigmoid Relu Gemm Softmax");
}

TEST(WriteModelTest, AFeatureOfTheOutputsNameKeepsIt) {
  const OnnxNetwork network(
      OnnxModelOf(kThree), OnnxInputOf({{"prediction", DType::kFloat32, {6}}}));
  const onnx::ModelProto model = network.Write();
  EXPECT_EQ(model.graph().input(0).name(), "prediction");
  EXPECT_EQ(model.graph().output(0).name(), "prediction_2");
}

TEST(WriteModelTest, RowsByKeyAreRefusedByName) {
  const OnnxNetwork network(
      OnnxModelOf("layers { embedding { width: 64 sparse: true capacity: 5000 "
                  "} } layers { flatten {} } layers { dense { units: 3 } }"),
      OnnxInputOf({{"keys", DType::kInt64, {2}}}));
  const absl::Status refused = CheckFitsOnnx(*network.plan, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("'embedding_1/table' has rows by key"),
                    HasSubstr("safetensors")));
  EXPECT_EQ(
      WriteOnnxModel(*network.plan, network.spans(), nullptr, {}).status(),
      refused);
}

TEST(WriteModelTest, WeightsThatDoNotFitAFileAreRefused) {
  // 2.2 GB, of which nothing is read.
  const auto plan = PlanNetwork(
      OnnxModelOf("layers { embedding { width: 550 rows: 1000000 } }"
                  "layers { flatten {} } layers { dense { units: 3 } }"),
      OnnxInputOf({{"ids", DType::kInt32, {2}, 20}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status refused = CheckFitsOnnx(**plan, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the weights are 2200013212 bytes, and an ONNX file "
                        "holds 2080374783 at most"));
  OnnxIntegers halves;
  halves.quantization.mode = Quantization::Mode::kFloat16;
  EXPECT_TRUE(CheckFitsOnnx(**plan, &halves).ok());
}

TEST(WriteModelTest, WhatIsNoOnnxIsFound) {
  onnx::ModelProto model = Simple().Write();
  EXPECT_TRUE(CheckOnnx(&model).ok());
  model.mutable_graph()->mutable_node(0)->set_op_type("Nonsense");
  EXPECT_TRUE(absl::IsInternal(CheckOnnx(&model)));
  model = Simple().Write();
  // Its layers give three.
  model.mutable_graph()
      ->mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(4);
  EXPECT_TRUE(absl::IsInternal(CheckOnnx(&model)));
}

}  // namespace
}  // namespace paramd
