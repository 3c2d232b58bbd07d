#include "worker/stages/stage_computer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/stages/testing/stages_of_case.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Part = v1::StageOperation::Backward;

CutCase TableCase(const std::string& embedding) {
  return {"Table", kWords,
          "layers { embedding { width: 3 " + embedding + R"( } }
          layers { dense { units: 7 } } layers { tanh {} }
          layers { dense { units: 7 } })"};
}

v1::PipelineConfig BeginningAt(const std::vector<std::string>& layers) {
  v1::PipelineConfig pipeline = Pipeline(1 + layers.size(), 2);
  for (const std::string& layer : layers) pipeline.add_begin_at(layer);
  return pipeline;
}

// A stage process, with what its worker sends to it.
class Computed {
 public:
  explicit Computed(const CutCase& one,
                    const std::vector<std::string>& begin_at = {"dense_2"})
      : input_(one.input),
        computer_("stage-3", StagesOfCase(one, BeginningAt(begin_at))) {}

  // Goes with the next operation, and has zeros behind the values.
  Computed& Send(DType dtype, const Dims& dims,
                 const std::vector<int32_t>& values = {}) {
    AddArray(dtype, dims, &arrays_);
    Buffer part = Buffer::Allocate(SizeOf(dims) * SizeOf(dtype));
    std::byte* const to = part.mutable_bytes().data();
    const size_t bytes = std::min(part.size(), values.size() * sizeof(int32_t));
    if (bytes > 0) std::memcpy(to, values.data(), bytes);
    std::fill(to + bytes, to + part.size(), std::byte{0});
    parts_.push_back(std::move(part));
    return *this;
  }

  absl::Status Begin(uint32_t stage = 0, uint32_t device = 0) {
    v1::StageOperation operation;
    operation.set_stage(stage);
    ToProto(input_, operation.mutable_begin()->mutable_features());
    operation.mutable_begin()->set_device(device);
    operation.mutable_begin()->set_slots(2);
    return Compute(operation);
  }
  absl::Status Forward(uint64_t examples, uint32_t features = 1,
                       bool training = true, uint32_t stage = 0) {
    v1::StageOperation operation;
    operation.set_stage(stage);
    operation.mutable_forward()->set_examples(examples);
    operation.mutable_forward()->set_features(features);
    operation.mutable_forward()->set_training(training);
    return Compute(operation);
  }
  absl::Status Backward(Part::Part part, bool adds) {
    v1::StageOperation operation;
    operation.mutable_backward()->set_part(part);
    operation.mutable_backward()->set_adds(adds);
    return Compute(operation);
  }
  absl::Status Update() {
    v1::StageOperation operation;
    operation.mutable_update();
    return Compute(operation);
  }

 private:
  absl::Status Compute(const v1::StageOperation& operation) {
    v1::ComputeStageRequest request;
    request.mutable_header()->set_incarnation(1);
    *request.mutable_operation() = operation;
    request.mutable_operation()->mutable_arrays()->Swap(&arrays_);
    StageContent content;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const v1::StageArray& array = request.operation().arrays(i);
      content.Add(static_cast<DType>(array.dtype()),
                  Dims(array.dims().begin(), array.dims().end()),
                  parts_[i].bytes());
    }
    const Buffer bytes = content.Copy(0, content.bytes());
    parts_.clear();
    arrays_.Clear();
    v1::ComputeStageReply reply;
    BufferChain result;
    return computer_.Compute(request, bytes, &reply, &result);
  }

  const InputSpec input_;
  StageComputer computer_;
  StageArrays arrays_;
  std::vector<Buffer> parts_;
};

// Words of one example.
std::vector<int32_t> Words(int32_t last) { return {0, 1, 2, 3, 4, 5, 6, last}; }

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError("stage-3 is given " + what);
}

// Through the table and the layer after it.
void BeginTable(Computed* stage, uint64_t rows) {
  stage->Send(DType::kFloat32, {rows, 3})
      .Send(DType::kFloat32, {3, 7})
      .Send(DType::kFloat32, {7});
  ASSERT_EQ(stage->Begin(), absl::OkStatus());
}

TEST(StageComputerTest, AnIntegerThatIsNoRowOfItsTableIsRefused) {
  for (const int32_t word : {7, -1, -2, 2147483647, -2147483647}) {
    Computed stage(TableCase(""));
    BeginTable(&stage, 7);
    stage.Send(DType::kInt32, {1, 8}, Words(word));
    EXPECT_EQ(stage.Forward(1),
              Wrong("the integer " + std::to_string(word) +
                    " of feature 'text' to look up in 'embedding_1/table', of "
                    "which it has 7 rows"));
    stage.Send(DType::kInt32, {1, 8}, Words(6));
    EXPECT_EQ(stage.Forward(1), absl::OkStatus());
  }
}

TEST(StageComputerTest, OfASparseTableTheRowsThatWereSentCount) {
  Computed stage(TableCase("sparse: true"));
  BeginTable(&stage, 1);
  stage.Send(DType::kInt32, {1, 8}, std::vector<int32_t>(8, 1));
  EXPECT_THAT(stage.Forward(1).message(),
              HasSubstr("the integer 1 of feature 'text'"));
  stage.Send(DType::kInt32, {1, 8}, std::vector<int32_t>(8, 0));
  EXPECT_EQ(stage.Forward(1), absl::OkStatus());
}

TEST(StageComputerTest, WithPaddingMinusOneIsNoRowAndWhatIsBelowIsRefused) {
  Computed stage(TableCase("padding: true"));
  BeginTable(&stage, 7);
  stage.Send(DType::kInt32, {1, 8}, Words(-1));
  EXPECT_EQ(stage.Forward(1), absl::OkStatus());
  stage.Send(DType::kInt32, {1, 8}, Words(-2));
  EXPECT_THAT(stage.Forward(1).message(),
              HasSubstr("the integer -2 of feature 'text'"));
}

TEST(StageComputerTest, AFeatureOfAnotherTypeOrSizeIsRefused) {
  Computed stage(TableCase(""));
  BeginTable(&stage, 7);
  stage.Send(DType::kFloat32, {1, 8});
  EXPECT_EQ(stage.Forward(1),
            Wrong("float32 [1, 8] for feature 'text' of 1 examples, which are "
                  "int32 [1, 8]"));
  stage.Send(DType::kInt32, {1, 8});
  EXPECT_EQ(stage.Forward(2),
            Wrong("int32 [1, 8] for feature 'text' of 2 examples, which are "
                  "int32 [2, 8]"));
}

TEST(StageComputerTest, ABranchThatReadsAFeatureIsGivenIt) {
  const InputSpec numbers{
      {FeatureSpec{.name = "numbers", .dims = {5}},
       FeatureSpec{
           .name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 4}}};
  Computed stage({"Branches", numbers, R"(
      layers { dense { units: 6 } }
      layers { parallel {
        branches { layers { dense { units: 2 } } }
        branches { input: "numbers" layers { dense { units: 3 } } } } }
      layers { dense { units: 4 name: "last" } })"},
                 {"parallel_1", "last"});
  stage.Send(DType::kFloat32, {6, 2})
      .Send(DType::kFloat32, {2})
      .Send(DType::kFloat32, {5, 3})
      .Send(DType::kFloat32, {3});
  ASSERT_EQ(stage.Begin(/*stage=*/1, /*device=*/1), absl::OkStatus());
  stage.Send(DType::kFloat32, {1, 6});
  EXPECT_EQ(stage.Forward(1, /*features=*/0, true, /*stage=*/1),
            Wrong("1 arrays, of 0 features; the model has 1"));
  stage.Send(DType::kFloat32, {1, 5}).Send(DType::kFloat32, {1, 6});
  EXPECT_EQ(stage.Forward(1, /*features=*/1, true, /*stage=*/1),
            absl::OkStatus());
}

TEST(StageComputerTest, GradientsAreAddedToSumsThatThereAre) {
  Computed stage(TableCase(""));
  BeginTable(&stage, 7);
  const auto forward = [&](bool training) {
    stage.Send(DType::kInt32, {1, 8}, Words(0));
    return stage.Forward(1, 1, training);
  };
  const auto backward = [&](Part::Part part, bool adds) {
    if (part != Part::VARIABLES) stage.Send(DType::kFloat32, {1, 8, 7});
    return stage.Backward(part, adds);
  };
  ASSERT_EQ(forward(true), absl::OkStatus());
  EXPECT_EQ(backward(Part::WHOLE, true),
            Wrong("gradients to add to sums, and there are none"));
  EXPECT_EQ(backward(Part::INPUT, false), absl::OkStatus());
  EXPECT_THAT(stage.Update().message(), HasSubstr("before it has any"));
  EXPECT_EQ(backward(Part::VARIABLES, false), absl::OkStatus());
  ASSERT_EQ(forward(true), absl::OkStatus());
  EXPECT_EQ(backward(Part::WHOLE, false),
            Wrong("gradients to begin sums with, and there are some"));
  EXPECT_EQ(backward(Part::WHOLE, true), absl::OkStatus());
  EXPECT_EQ(stage.Update(), absl::OkStatus());
}

TEST(StageComputerTest, AnEvaluationHasNoBackwardPass) {
  Computed stage(TableCase(""));
  BeginTable(&stage, 7);
  stage.Send(DType::kInt32, {1, 8}, Words(0));
  ASSERT_EQ(stage.Forward(1, 1, /*training=*/false), absl::OkStatus());
  stage.Send(DType::kFloat32, {1, 8, 7});
  EXPECT_EQ(stage.Backward(Part::WHOLE, false),
            Wrong("a backward pass of slot 0, whose forward pass was an "
                  "evaluation's"));
}

TEST(StageComputerTest, TheLastStageIsItsWorkersOwn) {
  Computed stage(TableCase(""));
  EXPECT_EQ(stage.Begin(/*stage=*/1, /*device=*/1),
            Wrong("stage 1, the last one, which is its worker's own"));
}

}  // namespace
}  // namespace paramd
