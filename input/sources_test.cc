#include "input/sources.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const OpenedSource& source) {
  return std::string(source.status().message());
}

v1::InputSource::Records Records(const std::string& path) {
  v1::InputSource::Records config;
  config.add_files(path);
  config.set_header_bytes(2);
  v1::InputFeature* label = config.add_features();
  label->set_name("label");
  label->set_type(v1::InputFeature::TYPE_UINT8);
  label->set_classes(3);
  v1::InputFeature* x = config.add_features();
  x->set_name("x");
  x->set_type(v1::InputFeature::TYPE_INT32);
  x->add_dims(2);
  return config;
}

TEST(SourcesTest, RecordsAreReadByTheirFeatures) {
  const std::string record =
      std::string("\x02", 1) + ValueBytes<int32_t>({-5, 70000});
  const std::string path =
      WriteTestFile("a.bin", "hh" + std::string(9, '\0') + record);
  const auto source = OpenRecords("", Records(path));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 2u);
  Example example;
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<uint8_t>(), ElementsAre(2));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(-5, 70000));
}

TEST(SourcesTest, RecordsThatDoNotFillTheirFileAreRefused) {
  const std::string path = WriteTestFile("a.bin", std::string(12, 'a'));
  EXPECT_EQ(Message(OpenRecords("", Records(path))),
            "'" + path +
                "' has 12 bytes; 2 bytes of header and records of 9 "
                "bytes are needed");
}

TEST(SourcesTest, ALabelOutOfRangeIsNamedWithItsPlace) {
  const std::string path =
      WriteTestFile("a.bin", "hh" + std::string(9, '\0') + std::string(9, 7));
  const auto source = OpenRecords("", Records(path));
  ASSERT_TRUE(source.ok()) << source.status();
  Example example;
  EXPECT_EQ((*source)->Read(1, &example),
            absl::DataLossError("'" + path +
                                "' record 1: 'label' is 7; it must "
                                "be at least 0 and below 3"));
}

TEST(SourcesTest, AListMayHavePaddingAndNothingElseBelowZero) {
  v1::InputSource::Records config = Records(WriteTestFile(
      "a.bin", "hh" + std::string("\x01", 1) + ValueBytes<int32_t>({4, -1}) +
                   std::string("\x01", 1) + ValueBytes<int32_t>({-2, 0})));
  config.mutable_features(1)->set_classes(5);
  const auto source = OpenRecords("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(4, -1));
  EXPECT_THAT(std::string((*source)->Read(1, &example).message()),
              HasSubstr("'x' is -2; it must be at least 0 and below 5, or -1 "
                        "for padding"));
}

TEST(SourcesTest, AFileThatShrinksWhileItIsReadIsAnError) {
  const std::string path = WriteTestFile("a.bin", std::string(2 + 18, '\0'));
  const auto source = OpenRecords("", Records(path));
  ASSERT_TRUE(source.ok()) << source.status();
  std::filesystem::resize_file(path, 12);
  Example example;
  EXPECT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_EQ((*source)->Read(1, &example),
            absl::DataLossError("'" + path +
                                "' ends at byte 12; 9 bytes from byte 11 are "
                                "needed: it had 20 bytes when it was opened"));
}

TEST(SourcesTest, TextGivesWindowsAndWhatFollows) {
  v1::InputSource::Text config;
  config.add_files(WriteTestFile("a.txt", "abcdefg"));
  config.add_files(WriteTestFile("b.txt", "xyz"));
  config.add_files(WriteTestFile("short.txt", "q"));
  config.set_context(2);
  const auto source = OpenText("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 4u);
  EXPECT_THAT((*source)->FileStarts(), ElementsAre(0, 3, 4));
  Example example;
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre('c', 'd'));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre('d', 'e'));
  ASSERT_TRUE((*source)->Read(3, &example).ok());
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre('y', 'z'));
  EXPECT_THAT((*source)->Where(2), ::testing::EndsWith("a.txt' at byte 4"));
  EXPECT_THAT((*source)->Where(3), ::testing::EndsWith("b.txt' at byte 0"));
}

TEST(SourcesTest, RecordsOfManyFilesAreFound) {
  v1::InputSource::Records config = Records("");
  config.clear_files();
  // Files of 0, 1, 2, 0, 1, 2 records.
  std::vector<std::string> places;
  for (int i = 0; i < 6; ++i) {
    const std::string path = WriteTestFile(
        "many-" + std::to_string(i), "hh" + std::string(9 * (i % 3), '\0'));
    config.add_files(path);
    for (int r = 0; r < i % 3; ++r) {
      places.push_back("'" + path + "' record " + std::to_string(r));
    }
  }
  const auto source = OpenRecords("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), places.size());
  Example example;
  for (uint64_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ((*source)->Where(i), places[i]);
    EXPECT_TRUE((*source)->Read(i, &example).ok());
  }
}

TEST(SourcesTest, TextWithoutAWindowIsRefused) {
  v1::InputSource::Text config;
  config.add_files(WriteTestFile("a.txt", "abc"));
  config.set_context(3);
  EXPECT_THAT(Message(OpenText("", config)),
              HasSubstr("has 3 bytes; an example needs 4"));
}

TEST(SourcesTest, SyntheticNumbersAreTheSameEachTime) {
  v1::InputSource::Synthetic config;
  config.set_examples(5);
  config.add_features()->set_name("x");
  v1::InputFeature* label = config.add_features();
  label->set_name("label");
  label->set_type(v1::InputFeature::TYPE_INT64);
  label->set_classes(4);
  const auto source = *OpenSynthetic(config);
  Example once, again, other;
  ASSERT_TRUE(source->Read(3, &once).ok());
  ASSERT_TRUE(source->Read(3, &again).ok());
  ASSERT_TRUE(source->Read(2, &other).ok());
  EXPECT_EQ(once.values[0].values<float>(), again.values[0].values<float>());
  EXPECT_NE(once.values[0].values<float>(), other.values[0].values<float>());
  EXPECT_LT(once.values[1].values<int64_t>()[0], 4);
}

TEST(SourcesTest, AnIndexIsTheExamplesOwnNumber) {
  v1::InputSource::Indices config;
  EXPECT_THAT(Message(OpenIndices(config)),
              ::testing::HasSubstr("nobody says"));
  config.set_examples(5);
  const auto source = *OpenIndices(config);
  EXPECT_EQ(source->size(), 5u);
  EXPECT_EQ(source->spec().features[0].name, "index");
  Example example;
  ASSERT_TRUE(source->Read(3, &example).ok());
  EXPECT_EQ(example.values[0].values<int64_t>()[0], 3);
}

TEST(SourcesTest, FeaturesThatMakeNoSenseAreRefused) {
  v1::InputSource::Synthetic config;
  config.set_examples(5);
  config.add_features()->set_name("x");
  config.add_features()->set_name("x");
  EXPECT_EQ(Message(OpenSynthetic(config)), "two features have the name 'x'");
  config.mutable_features(1)->set_name("y");
  config.mutable_features(1)->set_classes(4);
  EXPECT_EQ(Message(OpenSynthetic(config)),
            "feature 'y' has classes; it is float32, classes need whole "
            "numbers");
  config.mutable_features(1)->set_classes(0);
  config.mutable_features(1)->add_dims(0);
  EXPECT_EQ(Message(OpenSynthetic(config)),
            "feature 'y' is float32 ?; here every dimension must be known");
}

// Their product, or the bytes that it takes, is 2^64.
TEST(SourcesTest, ShapesBeyondWhatCanBeCountedAreRefused) {
  const std::string path = WriteTestFile("a.bin", std::string(20, '\0'));
  const auto add = [](const std::vector<uint32_t>& dims, auto* config) {
    v1::InputFeature* const feature = config->add_features();
    feature->set_name("z");
    feature->mutable_dims()->Assign(dims.begin(), dims.end());
  };
  v1::InputSource::Records records = Records(path);
  add({1u << 31, 1u << 31}, &records);
  EXPECT_EQ(Message(OpenRecords("", records)),
            "feature 'z' is float32 2147483648x2147483648; an example may have "
            "at most 2147483648 values of it");
  v1::InputSource::TfRecord open;
  add({1u << 31, 1u << 31, 4, 0}, &open);
  EXPECT_THAT(Message(ReadTfRecord({}, open)),
              HasSubstr("float32 2147483648x2147483648x4x?; an example"));
  v1::InputSource::Synthetic most;
  most.set_examples(1);
  add({1u << 31}, &most);
  EXPECT_TRUE(OpenSynthetic(most).ok());
}

TEST(SourcesTest, AnotherFileMakesItAnotherDataSet) {
  const std::string path = WriteTestFile("a.bin", std::string(20, '\0'));
  const v1::DataSet before = (*OpenRecords("", Records(path)))->Describe();
  EXPECT_EQ(before.examples(), 2u);
  EXPECT_EQ(before.classes(), 3u);
  std::string changed(20, '\0');
  changed[19] = 1;
  WriteTestFile("a.bin", changed);
  const v1::DataSet after = (*OpenRecords("", Records(path)))->Describe();
  EXPECT_NE(before.examples_crc32c(), after.examples_crc32c());
}

}  // namespace
}  // namespace paramd
