#include "input/own_map.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/describe_meaning.h"
#include "input/testing/fake_source.h"
#include "proto/data_meaning.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<FeatureSpec> OneReal(const FeatureSpec& in) {
  if (in.dtype != DType::kFloat32 || in.dims != Dims{1}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "needs one real number; found ", ShapeText(in.dtype, in.dims)));
  }
  FeatureSpec out = in;
  out.dims = {2};
  return out;
}

// x becomes x and a number drawn below x.
absl::Status Below(const OwnedTensor& in, RandomStream random,
                   OwnedTensor* out) {
  const float x = in.values<float>()[0];
  if (x == 8) return absl::InvalidArgumentError("8 is not wanted");
  // What it gives of 9 is not what it said.
  out->Reset(DType::kFloat32, {x == 9 ? 3u : 2u});
  out->values<float>()[0] = x;
  out->values<float>()[1] = x * random.Uniform();
  return absl::OkStatus();
}

// Maps are of the process.
void AddMaps() {
  static const bool once = [] {
    AddMap("below", {.spec = OneReal, .change = Below, .draws = true});
    AddMap("keep",
           {.spec = [](const FeatureSpec& in) { return in; },
            .change =
                [](const OwnedTensor& in, RandomStream, OwnedTensor* out) {
                  out->Reset(in.dtype(), in.dims());
                  std::copy(in.bytes().begin(), in.bytes().end(),
                            out->bytes().begin());
                  return absl::OkStatus();
                }});
    return true;
  }();
  (void)once;
}

v1::InputConfig ConfigWith(const std::string& name,
                           const std::string& feature = "image") {
  v1::InputConfig config;
  config.add_stages()->mutable_map()->set_name(name);
  config.mutable_stages(0)->mutable_map()->set_feature(feature);
  return config;
}

absl::StatusOr<std::unique_ptr<Pipeline>> Mapped(
    const v1::InputConfig& config) {
  AddMaps();
  return Pipeline::Create(std::make_unique<FakeSource>(10), config,
                          {.seed = 3});
}

TEST(OwnMapTest, WhatItGivesFollowsFromTheExampleAndThePlace) {
  const auto pipeline = Mapped(ConfigWith("below"));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->spec().features[0].dims, Dims{2});
  Batch batch, again;
  ASSERT_TRUE((*pipeline)->Read({1, 0, 8}, &batch).ok());
  ASSERT_TRUE((*pipeline)->Read({1, 4, 8}, &again).ok());
  const auto values = batch.columns[0].values<float>();
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(values[2 * i], static_cast<float>(i));
    EXPECT_LE(values[2 * i + 1], static_cast<float>(i));
  }
  EXPECT_EQ(values.subspan(8), again.columns[0].values<float>());
  ASSERT_TRUE((*pipeline)->Read({2, 4, 8}, &again).ok());
  EXPECT_NE(values.subspan(8), again.columns[0].values<float>());
}

TEST(OwnMapTest, ItsErrorsNameTheExample) {
  const auto pipeline = *Mapped(ConfigWith("below"));
  Batch batch;
  EXPECT_EQ(pipeline->Read({0, 8, 9}, &batch),
            absl::DataLossError("example 8: map of 'image': 8 is not wanted"));
  EXPECT_EQ(pipeline->Read({0, 9, 10}, &batch),
            absl::DataLossError("example 9: map of 'image': 'below' has made "
                                "float32 3 of it, not float32 2"));
}

TEST(OwnMapTest, AMapThatIsNotThereOrDoesNotSuitIsRefused) {
  EXPECT_EQ(Mapped(ConfigWith("belaw")).status(),
            absl::InvalidArgumentError(
                "stage 1 of the input, map: this program has no map 'belaw' "
                "('below', 'keep'); run the one that brings it"));
  EXPECT_EQ(Mapped(ConfigWith("below", "label")).status(),
            absl::InvalidArgumentError(
                "stage 1 of the input, map: 'below': needs one real number; "
                "found one int32"));
}

TEST(OwnMapTest, AFilterCountsWhatAMapGivesUnlessItDraws) {
  v1::InputConfig config = ConfigWith("keep");
  auto* const filter = config.add_stages()->mutable_filter();
  filter->set_feature("image");
  filter->set_min(4);
  const auto pipeline = Mapped(config);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->size(), 6u);
  config.mutable_stages(0)->mutable_map()->set_name("below");
  EXPECT_THAT(std::string(Mapped(config).status().message()),
              HasSubstr("filter: 'image' is drawn again in each epoch"));
}

TEST(OwnMapTest, ItsNameAndVersionAreWhatNumbersMean) {
  const auto with = *Mapped(ConfigWith("keep"));
  v1::InputConfig without;
  without.add_stages()->mutable_prefetch()->set_batches(1);
  EXPECT_THAT(MeaningDifference((*Mapped(without))->meaning(), with->meaning()),
              ::testing::EndsWith(", map name keep version 1"));
}

}  // namespace
}  // namespace paramd
