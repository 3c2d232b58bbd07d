#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "input/sources.h"
#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::InputSource::LibSvm LibSvmConfig(const std::string& path,
                                     uint32_t columns) {
  v1::InputSource::LibSvm config;
  config.add_files(path);
  config.set_columns(columns);
  config.set_list_length(4);
  config.set_first_index(1);
  config.set_classes(2);
  config.set_name("features");
  return config;
}

// What reading the only line says.
std::string Refused(const std::string& line, uint32_t columns,
                    uint32_t classes = 2) {
  v1::InputSource::LibSvm config =
      LibSvmConfig(WriteTestFile("a.txt", line), columns);
  config.set_classes(classes);
  const auto source = OpenLibSvm("", config);
  EXPECT_TRUE(source.ok()) << source.status();
  Example example;
  const absl::Status status = (*source)->Read(0, &example);
  EXPECT_TRUE(absl::IsDataLoss(status)) << line << ": " << status;
  return std::string(status.message());
}

TEST(LibSvmSourceTest, VectorsHaveZerosWhereALineSaysNothing) {
  const std::string path = WriteTestFile(
      "a.txt", "+1 1:0.5 3:-2e1\r\n\n-1 qid:7 2:1 # no 3:1\n-1\n1\t4:1\n");
  const auto source = OpenLibSvm("", LibSvmConfig(path, 4));
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 4u);
  EXPECT_EQ((*source)->spec().features[0].dims, Dims({4}));
  EXPECT_EQ((*source)->spec().features[0].classes, 0u);
  EXPECT_EQ((*source)->spec().features[1].classes, 2u);
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0.5, 0, -20, 0));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(1));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(0));
  ASSERT_TRUE((*source)->Read(2, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 0, 0, 0));
  ASSERT_TRUE((*source)->Read(3, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 0, 0, 1));
  EXPECT_EQ((*source)->Where(1), absl::StrCat("'", path, "' line 3"));
}

TEST(LibSvmSourceTest, ListsHaveTheFirstIndicesAndPadding) {
  const std::string path = WriteTestFile(
      "a.txt", "-1 3:1 11:1 14:1.0\n1 1:1 2:1 3:1 4:1 40:1\n-1\n");
  const auto source = OpenLibSvm("", LibSvmConfig(path, 0));
  ASSERT_TRUE(source.ok()) << source.status();
  const FeatureSpec& feature = (*source)->spec().features[0];
  EXPECT_EQ(feature.dtype, DType::kInt32);
  EXPECT_EQ(feature.dims, Dims({4}));
  EXPECT_EQ(feature.classes, 64u) << "40 counts, where the list has no room";
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre(2, 10, 13, -1));
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE((*source)->Read(2, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre(-1, -1, -1, -1));
}

TEST(LibSvmSourceTest, IndicesMayBeginWithZeroAndLabelsBeAnyNumber) {
  v1::InputSource::LibSvm config =
      LibSvmConfig(WriteTestFile("a.txt", "-2.5 0:1 2:1\n3e2 1:1\n"), 0);
  config.set_first_index(0);
  config.set_classes(0);
  const auto source = OpenLibSvm("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->spec().features[0].classes, 4u);
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre(0, 2, -1, -1));
  EXPECT_THAT(example.values[1].values<float>(), ElementsAre(-2.5));
  config.set_classes(10);
  config.set_files(0, WriteTestFile("b.txt", "9 0:1\n"));
  Example digit;
  ASSERT_TRUE((*OpenLibSvm("", config))->Read(0, &digit).ok());
  EXPECT_THAT(digit.values[1].values<int32_t>(), ElementsAre(9));
}

TEST(LibSvmSourceTest, WhatIsWrongInALineIsNamed) {
  EXPECT_THAT(Refused("1 2", 4),
              HasSubstr("a.txt' line 1: needs index:value; found '2'"));
  for (const char* word : {"x:1", ":1", "2:", "2:x", "-1:1", "+1:1", "1.5:1",
                           "99999999999999999999999:1", "1:1:1"}) {
    EXPECT_THAT(Refused(absl::StrCat("\n\n1 ", word), 4),
                HasSubstr(absl::StrCat("line 3: needs index:value; found '",
                                       word, "'")));
  }
  EXPECT_THAT(Refused("1 0:1", 4),
              HasSubstr("has index 0; the least is 1, unless \"first_index\""));
  EXPECT_THAT(Refused("1 2:1 2:1", 4),
              HasSubstr("has index 2 after 2; indices must ascend"));
  EXPECT_THAT(Refused("1 3:1 2:1", 0), HasSubstr("has index 2 after 3"));
  EXPECT_THAT(Refused("1 5:1", 4),
              HasSubstr("has index 5; the largest of 4 columns is 4"));
  EXPECT_THAT(Refused("1 2147483648:1", 0),
              HasSubstr("the largest that is admitted is 2147483647"));
  EXPECT_THAT(Refused("1 2:0.5", 0),
              HasSubstr("has index 2 with the value 0.5; without \"columns\""));
  EXPECT_THAT(Refused("1:1 2:1", 4),
              HasSubstr("the label needs a whole number; found '1:1'"));
  EXPECT_THAT(Refused("2 2:1", 4),
              HasSubstr("'label' is 2; it must be at least 0 and below 2"));
  EXPECT_THAT(Refused("-1 2:1", 4, 3), HasSubstr("'label' is -1"));
  EXPECT_THAT(Refused("good 2:1", 4, 0),
              HasSubstr("the label needs a number; found 'good'"));
  EXPECT_THAT(Refused("nan 2:1", 4, 0),
              HasSubstr("the label needs a number; found 'nan'"));
  EXPECT_THAT(Refused("1 2:inf", 4),
              HasSubstr("needs index:value; found '2:inf'"));
}

TEST(LibSvmSourceTest, LinesOfACommentAreNoExamples) {
  const std::string path = WriteTestFile(
      "a.txt",
      "# made by dump_svmlight_file\n#\n1 1:1 # one\n  # two\n-1 2:1\n");
  const auto source = OpenLibSvm("", LibSvmConfig(path, 2));
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 2u);
  EXPECT_EQ((*source)->Where(1), absl::StrCat("'", path, "' line 5"));
  Example example;
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 1));
}

TEST(LibSvmSourceTest, ALabelIsAnyFormOfAWholeNumber) {
  const auto label = [](const std::string& text) {
    v1::InputSource::LibSvm config =
        LibSvmConfig(WriteTestFile("a.txt", absl::StrCat(text, " 1:1\n")), 1);
    config.set_classes(300);
    Example example;
    const absl::Status status = (*OpenLibSvm("", config))->Read(0, &example);
    return status.ok() ? example.values[1].values<int32_t>()[0] : -1;
  };
  EXPECT_EQ(label("1.0"), 1);
  EXPECT_EQ(label("+2.000000"), 2);
  EXPECT_EQ(label("2.99e2"), 299);
  EXPECT_EQ(label("-0.0"), 0);
  for (const char* wrong : {"1.5", "1e300", "nan", "inf", "0x1p", "1.0.0"}) {
    EXPECT_EQ(label(wrong), -1) << wrong;
  }
}

TEST(LibSvmSourceTest, WhatIsWrongInTheJobIsNamed) {
  const std::string path = WriteTestFile("a.txt", " \n\n");
  EXPECT_EQ(
      OpenLibSvm("", LibSvmConfig(path, 4)).status(),
      absl::InvalidArgumentError(absl::StrCat("'", path, "' holds no line")));
  v1::InputSource::LibSvm config =
      LibSvmConfig(WriteTestFile("b.txt", "1 1:1"), 4);
  config.set_name("label");
  EXPECT_THAT(OpenLibSvm("", config).status().message(),
              HasSubstr("libsvm.name is 'label'"));
}

// Whatever stands in a file, it is read or refused with its place.
TEST(LibSvmSourceTest, DamagedFilesAreReadOrRefused) {
  const std::string whole =
      "+1 1:0.5 3:-2e1 # x\n-1 qid:7 2:1 900:1\n-1\n1\t4:1 7:1e-3\n";
  RandomStream random(3);
  const std::string alphabet = "0123456789:.-+e# \t\n\r\"qidx\0\xff";
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    for (uint64_t n = random.Below(4) + 1; n > 0; --n) {
      text[random.Below(text.size())] = alphabet[random.Below(alphabet.size())];
    }
    const std::string path = WriteTestFile("a.txt", text);
    for (const uint32_t columns : {0, 1000}) {
      const auto source = OpenLibSvm("", LibSvmConfig(path, columns));
      if (!source.ok()) continue;
      for (uint64_t i = 0; i < (*source)->size(); ++i) {
        Example example;
        const absl::Status status = (*source)->Read(i, &example);
        if (!status.ok()) {
          ++refused;
          EXPECT_TRUE(absl::IsDataLoss(status)) << status;
          EXPECT_THAT(std::string(status.message()),
                      HasSubstr(absl::StrCat("'", path, "' line ")));
          continue;
        }
        EXPECT_LT(example.values[1].values<int32_t>()[0], 2);
        if (columns > 0) continue;
        const auto bound =
            static_cast<int64_t>((*source)->spec().features[0].classes);
        for (const int32_t at : example.values[0].values<int32_t>()) {
          EXPECT_GE(at, -1);
          EXPECT_LT(at, bound);
        }
      }
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace paramd
