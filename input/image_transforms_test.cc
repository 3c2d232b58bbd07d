#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/decode_image.h"
#include "input/rand_augment.h"
#include "input/testing/input_test_files.h"
#include "input/transform.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

InputSpec Images(DType dtype, Dims dims) {
  InputSpec spec;
  spec.features.push_back(
      {.name = "image", .dtype = dtype, .dims = std::move(dims)});
  return spec;
}

// Pixels 1, 2, 3 ...
Example Counted(uint64_t height, uint64_t width) {
  Example example;
  example.values.resize(1);
  example.values[0].Reset(DType::kUInt8, {height, width, 1});
  const auto values = example.values[0].values<uint8_t>();
  std::iota(values.begin(), values.end(), uint8_t{1});
  return example;
}

std::vector<int> Pixels(const Example& example) {
  const auto values = example.values[0].values<uint8_t>();
  return {values.begin(), values.end()};
}

absl::StatusOr<std::unique_ptr<Transform>> Make(const v1::InputStage& stage,
                                                Dims dims,
                                                bool training = true) {
  const InputSpec input = Images(DType::kUInt8, std::move(dims));
  return MakeTransform(stage, {.input = input, .key = 5, .training = training});
}

std::vector<int> Applied(const Transform& transform, const ExamplePlace& place,
                         Example example) {
  const absl::Status status = transform.Apply(place, &example);
  EXPECT_TRUE(status.ok()) << status;
  return Pixels(example);
}

TEST(ImageTransformsTest, CropIsTheMiddle) {
  v1::InputStage stage;
  stage.mutable_crop()->set_feature("image");
  stage.mutable_crop()->set_height(2);
  stage.mutable_crop()->set_width(1);
  const auto crop = *Make(stage, {4, 3, 1});
  EXPECT_THAT(crop->spec().features[0].dims, ElementsAre(2, 1, 1));
  EXPECT_THAT(Applied(*crop, {}, Counted(4, 3)), ElementsAre(5, 8));
  EXPECT_EQ(Make(stage, {1, 3, 1}).status(),
            absl::InvalidArgumentError(
                "the image is 1x3; 2x1 cannot be cut out of it"));
}

TEST(ImageTransformsTest, ARandomCropDependsOnThePlaceAlone) {
  v1::InputStage stage;
  stage.mutable_random_crop()->set_feature("image");
  stage.mutable_random_crop()->set_height(2);
  stage.mutable_random_crop()->set_width(2);
  stage.mutable_random_crop()->set_padding(1);
  const auto crop = *Make(stage, {2, 2, 1});
  std::set<std::vector<int>> seen;
  for (uint64_t i = 0; i < 200; ++i) {
    const std::vector<int> pixels = Applied(*crop, {3, i}, Counted(2, 2));
    EXPECT_EQ(pixels, Applied(*crop, {3, i}, Counted(2, 2)));
    seen.insert(pixels);
  }
  EXPECT_EQ(seen.size(), 9u);  // Every place of the padded image.
  EXPECT_TRUE(seen.count({0, 0, 0, 1}));
  EXPECT_TRUE(seen.count({1, 2, 3, 4}));
  const auto middle = *Make(stage, {2, 2, 1}, /*training=*/false);
  EXPECT_THAT(Applied(*middle, {3, 1}, Counted(2, 2)), ElementsAre(1, 2, 3, 4));
}

TEST(ImageTransformsTest, HalfOfTheImagesAreFlipped) {
  v1::InputStage stage;
  stage.mutable_flip()->set_feature("image");
  const auto flip = *Make(stage, {1, 3, 1});
  int flipped = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::vector<int> pixels = Applied(*flip, {1, i}, Counted(1, 3));
    if (pixels == std::vector<int>{3, 2, 1}) ++flipped;
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(ImageTransformsTest, BrightnessAddsOneNumberThatThePlaceDraws) {
  v1::InputStage stage;
  stage.mutable_random_brightness()->set_feature("image");
  stage.mutable_random_brightness()->set_max_delta(4.0 / 255);
  const auto brightness = *Make(stage, {1, 3, 1});
  std::set<int> added;
  for (uint64_t i = 0; i < 400; ++i) {
    const std::vector<int> pixels = Applied(*brightness, {2, i}, Counted(1, 3));
    EXPECT_EQ(pixels, Applied(*brightness, {2, i}, Counted(1, 3)));
    const int delta = pixels[2] - 3;
    // Of the least ones, what would be below 0 is 0.
    EXPECT_THAT(pixels, ElementsAre(std::max(0, 1 + delta),
                                    std::max(0, 2 + delta), 3 + delta));
    added.insert(delta);
  }
  EXPECT_EQ(*added.begin(), -3);  // Less than that would be -1, which is 0.
  EXPECT_EQ(*added.rbegin(), 4);
  Example white = Counted(1, 3);
  for (uint8_t& v : white.values[0].values<uint8_t>()) v = 255;
  for (uint64_t i = 0; i < 50; ++i) {
    for (const int v : Applied(*brightness, {2, i}, white)) EXPECT_GE(v, 251);
  }
}

TEST(ImageTransformsTest, BrightnessDoesNotCutOffRealNumbers) {
  v1::InputStage stage;
  stage.mutable_random_brightness()->set_feature("image");
  stage.mutable_random_brightness()->set_max_delta(0.5);
  const InputSpec input = Images(DType::kFloat32, {1, 2});
  const auto brightness = *MakeTransform(stage, {.input = input, .key = 5});
  double least = 0, most = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    Example example;
    example.values.resize(1);
    example.values[0].Reset(DType::kFloat32, {1, 2});
    example.values[0].values<float>()[0] = 0;
    example.values[0].values<float>()[1] = 1;
    ASSERT_TRUE(brightness->Apply({0, i}, &example).ok());
    const auto values = example.values[0].values<float>();
    EXPECT_NEAR(values[1] - values[0], 1, 1e-6);
    least = std::min(least, double{values[0]});
    most = std::max(most, double{values[0]});
  }
  EXPECT_GE(least, -0.5);
  EXPECT_LE(most, 0.5);
  EXPECT_LT(least, -0.45);
  EXPECT_GT(most, 0.45);
}

TEST(ImageTransformsTest, AnImageIsTurnedCounterClockwise) {
  const Example in = Counted(2, 2);  // 1 2 over 3 4.
  Example out;
  out.values.resize(1);
  RotateImage(in.values[0], 90, &out.values[0]);
  EXPECT_THAT(Pixels(out), ElementsAre(2, 4, 1, 3));
  RotateImage(in.values[0], -90, &out.values[0]);
  EXPECT_THAT(Pixels(out), ElementsAre(3, 1, 4, 2));
  RotateImage(in.values[0], 180, &out.values[0]);
  EXPECT_THAT(Pixels(out), ElementsAre(4, 3, 2, 1));
  // Of what is not square, the corners are black.
  RotateImage(Counted(1, 3).values[0], 90, &out.values[0]);
  EXPECT_THAT(Pixels(out), ElementsAre(0, 2, 0));
}

TEST(ImageTransformsTest, ARotationDependsOnThePlaceAloneAndStaysInBounds) {
  v1::InputStage stage;
  stage.mutable_random_rotation()->set_feature("image");
  stage.mutable_random_rotation()->set_max_degrees(0);
  EXPECT_THAT(Applied(**Make(stage, {2, 2, 1}), {1, 1}, Counted(2, 2)),
              ElementsAre(1, 2, 3, 4));
  stage.mutable_random_rotation()->set_max_degrees(30);
  const auto rotation = *Make(stage, {9, 9, 1});
  std::set<std::vector<int>> seen;
  for (uint64_t i = 0; i < 50; ++i) {
    const std::vector<int> pixels = Applied(*rotation, {3, i}, Counted(9, 9));
    EXPECT_EQ(pixels, Applied(*rotation, {3, i}, Counted(9, 9)));
    EXPECT_EQ(pixels[40], 41);       // The middle.
    EXPECT_NEAR(pixels[41], 42, 5);  // 9 times the sine of 30 degrees, and 1.
    seen.insert(pixels);
  }
  EXPECT_GT(seen.size(), 45u);
}

TEST(ImageTransformsTest, ResizeIsBilinear) {
  v1::InputStage stage;
  stage.mutable_resize()->set_feature("image");
  stage.mutable_resize()->set_height(1);
  stage.mutable_resize()->set_width(2);
  EXPECT_THAT(Applied(**Make(stage, {0, 0, 1}), {}, Counted(2, 4)),
              ElementsAre(4, 6));  // 3.5 and 5.5, rounded.
  stage.mutable_resize()->set_height(2);
  stage.mutable_resize()->set_width(4);
  EXPECT_THAT(Applied(**Make(stage, {0, 0, 1}), {}, Counted(2, 4)),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ImageTransformsTest, ImagesAreDecodedAsTheyWereWritten) {
  std::vector<uint8_t> pixels(8 * 8 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>(40 + i);
  }
  const auto decode = [](const std::string& bytes, uint32_t channels,
                         OwnedTensor* out) {
    return DecodeImage(
        {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
        channels, out);
  };
  OwnedTensor out;
  ASSERT_TRUE(decode(PngBytes(8, 8, 3, pixels), 3, &out).ok());
  EXPECT_THAT(out.values<uint8_t>(), ::testing::ElementsAreArray(pixels));
  ASSERT_TRUE(decode(JpegBytes(8, 8, 3, pixels), 3, &out).ok());
  EXPECT_THAT(out.dims(), ElementsAre(8, 8, 3));
  double error = 0;
  for (size_t i = 0; i < pixels.size(); ++i) {
    error += std::abs(pixels[i] - out.values<uint8_t>()[i]);
  }
  EXPECT_LT(error / static_cast<double>(pixels.size()), 4);
  ASSERT_TRUE(decode(PngBytes(8, 8, 3, pixels), 1, &out).ok());
  EXPECT_THAT(out.dims(), ElementsAre(8, 8, 1));
  EXPECT_EQ(out.values<uint8_t>()[0],
            (299 * 40 + 587 * 41 + 114 * 42 + 500) / 1000);
  const std::vector<uint8_t> grey(pixels.begin(), pixels.begin() + 64);
  ASSERT_TRUE(decode(PngBytes(8, 8, 1, grey), 3, &out).ok());
  EXPECT_EQ(out.values<uint8_t>()[5], grey[1]);
}

// Whatever is cut off or changed, there is a sentence or a result.
TEST(ImageTransformsTest, ADamagedImageIsRefusedInASentence) {
  const std::vector<uint8_t> pixels(16 * 16 * 3, 77);
  for (const std::string& bytes :
       {PngBytes(16, 16, 3, pixels), JpegBytes(16, 16, 3, pixels)}) {
    OwnedTensor out;
    for (size_t size = 0; size + 2 < bytes.size(); ++size) {
      const absl::Status status = DecodeImage(
          {reinterpret_cast<const std::byte*>(bytes.data()), size}, 3, &out);
      // Of a file that lacks its end the pixels may be complete.
      ASSERT_FALSE(status.ok() && size < bytes.size() / 2) << size;
      ASSERT_EQ(status.ok(), status.message().empty()) << size;
    }
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
      (void)DecodeImage(
          {reinterpret_cast<const std::byte*>(changed.data()), changed.size()},
          3, &out);
    }
  }
}

TEST(ImageTransformsTest, RandAugmentOfNoStrengthKeepsMostOfAnImage) {
  // Its geometric operations and those of colour then do nothing.
  Example example = Counted(5, 5);
  int same = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    OwnedTensor out;
    RandAugment(example.values[0], 1, 0, RandomStream(i), &out);
    EXPECT_EQ(out.dims(), example.values[0].dims());
    same += std::equal(out.bytes().begin(), out.bytes().end(),
                       example.values[0].bytes().begin());
  }
  // All but solarize, autocontrast and equalize.
  EXPECT_NEAR(same, 200 * 12 / 14, 25);
}

TEST(ImageTransformsTest, RandAugmentIsTheSameForTheSameStream) {
  Example example = Counted(9, 7);
  std::set<std::vector<uint8_t>> seen;
  for (uint64_t i = 0; i < 100; ++i) {
    OwnedTensor once, again;
    RandAugment(example.values[0], 2, 15, RandomStream(i), &once);
    RandAugment(example.values[0], 2, 15, RandomStream(i), &again);
    EXPECT_EQ(once.values<uint8_t>(), again.values<uint8_t>());
    seen.insert({once.values<uint8_t>().begin(), once.values<uint8_t>().end()});
  }
  EXPECT_GT(seen.size(), 30u);
}

TEST(ImageTransformsTest, RandAugmentTakesFloatsAndGrey) {
  OwnedTensor image, out;
  image.Reset(DType::kFloat32, {6, 6});
  for (float& v : image.values<float>()) v = 0.5f;
  image.values<float>()[0] = NAN;  // Of a broken file.
  for (uint64_t i = 0; i < 300; ++i) {
    RandAugment(image, 3, 30, RandomStream(i), &out);
    EXPECT_THAT(out.dims(), ElementsAre(6, 6));
  }
}

}  // namespace
}  // namespace paramd
