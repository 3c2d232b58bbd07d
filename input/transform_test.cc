#include "input/transform.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

InputSpec Spec(DType dtype, Dims dims, uint32_t classes = 0) {
  InputSpec spec;
  spec.features.push_back({.name = "x",
                           .dtype = dtype,
                           .dims = std::move(dims),
                           .classes = classes});
  return spec;
}

template <class T>
Example Of(DType dtype, const Dims& dims, const std::vector<T>& values) {
  Example example;
  example.values.resize(1);
  example.values[0].Reset(dtype, dims);
  std::copy(values.begin(), values.end(),
            example.values[0].values<T>().begin());
  return example;
}

absl::StatusOr<std::unique_ptr<Transform>> Make(const v1::InputStage& stage,
                                                const InputSpec& input) {
  return MakeTransform(stage, {.input = input});
}

std::string Refusal(const v1::InputStage& stage, const InputSpec& input) {
  return std::string(Make(stage, input).status().message());
}

TEST(TransformTest, NormaliseSubtractsAndDividesByChannel) {
  v1::InputStage stage;
  stage.mutable_normalise()->set_feature("x");
  for (const double mean : {1, 2}) stage.mutable_normalise()->add_mean(mean);
  stage.mutable_normalise()->add_deviation(2);
  const auto transform = *Make(stage, Spec(DType::kUInt8, {2, 2}));
  EXPECT_EQ(transform->spec(), Spec(DType::kFloat32, {2, 2}));
  Example example = Of<uint8_t>(DType::kUInt8, {2, 2}, {1, 2, 3, 4});
  ASSERT_TRUE(transform->Apply({}, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(Refusal(stage, Spec(DType::kUInt8, {2, 3})),
            "has numbers for 2 channels; 'x' is uint8 2x3");
}

TEST(TransformTest, LogIsThatOfOneMore) {
  v1::InputStage stage;
  stage.mutable_log()->set_feature("x");
  const auto transform = *Make(stage, Spec(DType::kInt32, {4}, 99));
  EXPECT_EQ(transform->spec(), Spec(DType::kFloat32, {4}));
  Example example = Of<int32_t>(DType::kInt32, {4}, {0, 1, 99999, -1});
  ASSERT_TRUE(transform->Apply({}, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(),
              ElementsAre(0, ::testing::FloatEq(std::log(2.0f)),
                          ::testing::FloatEq(std::log(1e5f)),
                          ::testing::FloatEq(-std::log(2.0f))));
}

TEST(TransformTest, CastMultipliesAndStaysWithinItsType) {
  v1::InputStage stage;
  stage.mutable_cast()->set_feature("x");
  stage.mutable_cast()->set_type(v1::InputFeature::TYPE_UINT8);
  stage.mutable_cast()->set_scale(2);
  const auto transform = *Make(stage, Spec(DType::kFloat32, {5}));
  Example example =
      Of<float>(DType::kFloat32, {5}, {-3, 1.75f, 100, 1e9f, NAN});
  ASSERT_TRUE(transform->Apply({}, &example).ok());
  EXPECT_THAT(example.values[0].values<uint8_t>(),
              ElementsAre(0, 3, 200, 255, 0));
}

TEST(TransformTest, OneHotIsOneAtTheClass) {
  v1::InputStage stage;
  stage.mutable_one_hot()->set_feature("x");
  const auto transform = *Make(stage, Spec(DType::kInt32, {}, 3));
  EXPECT_EQ(transform->spec(), Spec(DType::kFloat32, {3}));
  Example example = Of<int32_t>(DType::kInt32, {}, {2});
  ASSERT_TRUE(transform->Apply({}, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 0, 1));
  example = Of<int32_t>(DType::kInt32, {}, {3});
  EXPECT_EQ(
      transform->Apply({}, &example),
      absl::InvalidArgumentError(
          "one_hot of 'x': value 3 is not a class; classes are whole numbers "
          "below 3"));
  EXPECT_EQ(Refusal(stage, Spec(DType::kInt32, {})),
            "needs classes: those of 'x' are not known");
}

TEST(TransformTest, TokeniseMakesNumbersOfBytes) {
  v1::InputStage stage;
  stage.mutable_tokenise()->set_feature("x");
  const auto transform = *Make(stage, Spec(DType::kUInt8, {0}));
  EXPECT_EQ(transform->spec(), Spec(DType::kInt32, {0}, 256));
  Example example = Of<uint8_t>(DType::kUInt8, {3}, {'a', 0, 255});
  ASSERT_TRUE(transform->Apply({}, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre('a', 0, 255));
  EXPECT_EQ(Refusal(stage, Spec(DType::kInt32, {})),
            "needs bytes; 'x' is one int32");
}

TEST(TransformTest, PadFillsAndCutsEveryDimension) {
  v1::InputStage stage;
  stage.mutable_pad()->set_feature("x");
  stage.mutable_pad()->add_dims(3);
  stage.mutable_pad()->add_dims(2);
  stage.mutable_pad()->set_value(9);
  const auto transform = *Make(stage, Spec(DType::kInt32, {0, 0}));
  EXPECT_EQ(transform->spec(), Spec(DType::kInt32, {3, 2}));
  Example example = Of<int32_t>(DType::kInt32, {2, 3}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(transform->Apply({}, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(),
              ElementsAre(1, 2, 4, 5, 9, 9));
  example = Of<int32_t>(DType::kInt32, {0, 2}, {});
  ASSERT_TRUE(transform->Apply({}, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ::testing::Each(9));
  EXPECT_EQ(Refusal(stage, Spec(DType::kInt32, {4})),
            "pads to 2 dimensions; 'x' is int32 4");
}

TEST(TransformTest, FilterDropsWhatIsOutsideOfItsBounds) {
  v1::InputStage stage;
  stage.mutable_filter()->set_feature("x");
  stage.mutable_filter()->set_min(2);
  stage.mutable_filter()->set_max(4);
  const auto transform = *Make(stage, Spec(DType::kInt32, {}));
  std::vector<int> kept;
  for (const int value : {1, 2, 3, 4, 5}) {
    Example example = Of<int32_t>(DType::kInt32, {}, {value});
    ASSERT_TRUE(transform->Apply({}, &example).ok());
    if (!example.dropped) kept.push_back(value);
  }
  EXPECT_THAT(kept, ElementsAre(2, 3, 4));
  Example example = Of<int32_t>(DType::kInt32, {2}, {3, 3});
  EXPECT_EQ(
      transform->Apply({}, &example),
      absl::InvalidArgumentError("filter needs one value; 'x' is int32 2"));
}

}  // namespace
}  // namespace paramd
