#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/sources.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::InputSource::TfRecord TfRecordConfig(const std::string& path) {
  v1::InputSource::TfRecord config;
  config.add_files(path);
  v1::InputFeature* x = config.add_features();
  x->set_name("x");
  x->add_dims(2);
  v1::InputFeature* text = config.add_features();
  text->set_name("text");
  text->set_type(v1::InputFeature::TYPE_UINT8);
  text->add_dims(0);
  v1::InputFeature* label = config.add_features();
  label->set_name("label");
  label->set_type(v1::InputFeature::TYPE_INT32);
  label->set_classes(3);
  return config;
}

std::string Record(float x, const std::string& text, int64_t label) {
  return TfRecordBytes(
      TfExample({Int64Feature("label", {label}), BytesFeature("unused", "??"),
                 FloatFeature("x", {x, x + 1}), BytesFeature("text", text)}));
}

std::string ReadError(const std::string& bytes) {
  const auto source =
      OpenTfRecord("", TfRecordConfig(WriteTestFile("a", bytes)));
  if (!source.ok()) return std::string(source.status().message());
  Example example;
  return std::string((*source)->Read(0, &example).message());
}

TEST(TfRecordSourceTest, FeaturesAreReadFromTheirLists) {
  const std::string path =
      WriteTestFile("a", Record(1, "one", 2) + Record(5, "", 0));
  v1::InputSource::TfRecord config = TfRecordConfig(path);
  config.add_files(WriteTestFile("b", Record(7, "seven", 1)));
  const auto source = OpenTfRecord("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 3u);
  EXPECT_THAT((*source)->FileStarts(), ElementsAre(0, 2));
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(example.values[1].values<uint8_t>(), ElementsAre('o', 'n', 'e'));
  EXPECT_THAT(example.values[2].values<int32_t>(), ElementsAre(2));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_EQ(example.values[1].size(), 0u);
  ASSERT_TRUE((*source)->Read(2, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(7, 8));
}

TEST(TfRecordSourceTest, AWrongLengthIsRefusedWhenTheFileIsOpened) {
  std::string bytes = Record(1, "one", 2) + Record(1, "one", 2);
  const size_t second = bytes.size() / 2;
  bytes[second] = static_cast<char>(bytes[second] ^ 1);
  EXPECT_THAT(ReadError(bytes),
              HasSubstr(absl::StrCat("record at byte ", second,
                                     ": its length has the crc32c")));
  EXPECT_THAT(ReadError("\x1f\x8b\x08 and so on, for long"),
              HasSubstr("is damaged after byte 0: zlib finds"));
  EXPECT_THAT(ReadError(Record(1, "one", 2).substr(0, 40)),
              HasSubstr("record at byte 0: it says"));
  EXPECT_THAT(ReadError(Record(1, "one", 2) + "abc"),
              HasSubstr("3 bytes are left; a record has at least 16"));
}

TEST(TfRecordSourceTest, WrongDataAreRefusedByTheirChecksum) {
  std::string bytes = Record(1, "one", 2);
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  EXPECT_THAT(ReadError(bytes), HasSubstr("record at byte 0: its data has the "
                                          "crc32c"));
}

TEST(TfRecordSourceTest, FeaturesThatDoNotFitAreNamed) {
  const auto error = [](const std::vector<std::string>& features) {
    return ReadError(TfRecordBytes(TfExample(features)));
  };
  EXPECT_THAT(error({BytesFeature("x", "a")}),
              HasSubstr("'x' is a bytes_list; float32 2 is needed"));
  EXPECT_THAT(error({FloatFeature("x", {1, 2, 3})}),
              HasSubstr("'x' has 3 values; float32 2 is needed"));
  EXPECT_THAT(
      error({FloatFeature("x", {1, 2})}),
      HasSubstr("'text' is missing; uint8 ? is needed, or \"missing\""));
  EXPECT_THAT(error({FloatFeature("x", {1, 2}), BytesFeature("text", "a"),
                     Int64Feature("label", {-1})}),
              HasSubstr("'label' is -1; it must be at least 0 and below 3"));
  EXPECT_THAT(ReadError(TfRecordBytes("no protobuf")),
              HasSubstr("it is no tf.Example"));
}

TEST(TfRecordSourceTest, AListMayHavePadding) {
  v1::InputSource::TfRecord config;
  v1::InputFeature* const ids = config.add_features();
  ids->set_name("ids");
  ids->set_type(v1::InputFeature::TYPE_INT32);
  ids->add_dims(2);
  ids->set_classes(3);
  config.add_files(WriteTestFile(
      "a", TfRecordBytes(TfExample({Int64Feature("ids", {2, -1})}))));
  const auto source = OpenTfRecord("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre(2, -1));
}

TEST(TfRecordSourceTest, AMissingFeatureHasTheValueThatTheJobGives) {
  v1::InputSource::TfRecord config = TfRecordConfig(WriteTestFile(
      "a", TfRecordBytes(TfExample({Int64Feature("unused", {7})})) +
               Record(1, "one", 0)));
  for (int f = 0; f < 3; ++f) config.mutable_features(f)->add_missing(f);
  const auto source = OpenTfRecord("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 0));
  EXPECT_EQ(example.values[1].size(), 0u);
  EXPECT_THAT(example.values[2].values<int32_t>(), ElementsAre(2));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(example.values[2].values<int32_t>(), ElementsAre(0));
}

TEST(TfRecordSourceTest, AValueForMissingOnesIsOneThatTheFeatureMayHave) {
  const auto refused = [](v1::InputFeature::Type type, double missing,
                          uint32_t classes = 0) {
    v1::InputSource::TfRecord config;
    config.add_files(WriteTestFile("a", Record(1, "one", 0)));
    v1::InputFeature* const feature = config.add_features();
    feature->set_name("label");
    feature->set_type(type);
    feature->set_classes(classes);
    feature->add_missing(missing);
    return std::string(OpenTfRecord("", config).status().message());
  };
  using Feature = v1::InputFeature;
  EXPECT_EQ(refused(Feature::TYPE_INT32, 1.5),
            "feature 'label' is int32, which 1.5, its value where it is "
            "missing, is not");
  EXPECT_NE(refused(Feature::TYPE_INT32, 1e10), "");
  EXPECT_NE(refused(Feature::TYPE_INT64, 1e19), "");
  EXPECT_NE(refused(Feature::TYPE_UINT8, -1), "");
  EXPECT_NE(refused(Feature::TYPE_FLOAT32, 1e39), "");
  EXPECT_EQ(refused(Feature::TYPE_INT32, 3, 3),
            "missing: 'label' is 3; it must be at least 0 and below 3");
  EXPECT_EQ(refused(Feature::TYPE_FLOAT64, 1e39), "");
  EXPECT_EQ(refused(Feature::TYPE_INT64, -1e18), "");
  EXPECT_EQ(refused(Feature::TYPE_INT32, 2, 3), "");
  v1::InputSource::Synthetic synthetic;
  synthetic.set_examples(1);
  synthetic.add_features()->set_name("x");
  synthetic.mutable_features(0)->add_missing(0);
  EXPECT_THAT(std::string(OpenSynthetic(synthetic).status().message()),
              HasSubstr("feature 'x' has a value where it is missing; only"));
}

TEST(TfRecordSourceTest, AnEmptyFileIsRefused) {
  EXPECT_THAT(ReadError(""), HasSubstr("holds no record"));
}

// Whatever the data are, there is a sentence or a result.
TEST(TfRecordSourceTest, DamagedDataNeverEndTheProcess) {
  const std::string data =
      TfExample({FloatFeature("x", {1, 2}), BytesFeature("text", "abc"),
                 Int64Feature("label", {1})});
  for (size_t at = 0; at < data.size(); ++at) {
    (void)ReadError(TfRecordBytes(data.substr(0, at)));
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = data;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      (void)ReadError(TfRecordBytes(changed));
    }
  }
  const std::string file = TfRecordBytes(data);
  for (size_t size = 1; size < file.size(); ++size) {
    EXPECT_NE(ReadError(file.substr(0, size)), "") << size;
  }
}

}  // namespace
}  // namespace paramd
