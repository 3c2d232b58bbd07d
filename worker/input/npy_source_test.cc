#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/input/sources.h"
#include "worker/input/testing/idx_test_files.h"
#include "worker/input/testing/input_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::InputSource::Npy NpyConfig(const std::string& images,
                               const std::string& labels = "",
                               const std::string& member = "") {
  v1::InputSource::Npy config;
  v1::InputSource::Npy::Array* image = config.add_arrays();
  image->set_name("image");
  image->set_file(images);
  image->set_member(member);
  if (labels.empty()) return config;
  v1::InputSource::Npy::Array* label = config.add_arrays();
  label->set_name("label");
  label->set_file(labels);
  label->set_classes(3);
  return config;
}

std::string Message(const v1::InputSource::Npy& config) {
  return std::string(OpenNpy("", config).status().message());
}

TEST(NpySourceTest, RowsOfSeveralArraysMakeAnExample) {
  const auto source = OpenNpy(
      "", NpyConfig(
              WriteTestFile("x.npy", NpyBytes("<f4", "(2, 1, 2)",
                                              ValueBytes<float>({1, 2, 3, 4}))),
              WriteTestFile("y.npy", NpyBytes("<i8", "(2,)",
                                              ValueBytes<int64_t>({2, 0})))));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 2u);
  EXPECT_THAT((*source)->spec().features[0].dims, ElementsAre(1, 2));
  Example example;
  ASSERT_TRUE((*source)->Read(1, &example).ok());
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(0));
}

TEST(NpySourceTest, AListMayHavePadding) {
  v1::InputSource::Npy config = NpyConfig(WriteTestFile(
      "x.npy", NpyBytes("<i8", "(1, 3)", ValueBytes<int64_t>({7, 0, -1}))));
  config.mutable_arrays(0)->set_classes(8);
  const auto source = OpenNpy("", config);
  ASSERT_TRUE(source.ok()) << source.status();
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  EXPECT_THAT(example.values[0].values<int32_t>(), ElementsAre(7, 0, -1));
}

TEST(NpySourceTest, MembersOfAnNpzFileAreStoredOrPacked) {
  const std::string array =
      NpyBytes("|u1", "(2, 3)", ValueBytes<uint8_t>({1, 2, 3, 4, 5, 6}));
  for (const bool deflated : {false, true}) {
    const std::string path = WriteTestFile(
        "a.npz", ZipBytes({{"other.npy", "?"}, {"x.npy", array}}, deflated));
    const auto source = OpenNpy("", NpyConfig(path, "", "x"));
    ASSERT_TRUE(source.ok()) << source.status();
    Example example;
    ASSERT_TRUE((*source)->Read(1, &example).ok());
    EXPECT_THAT(example.values[0].values<uint8_t>(), ElementsAre(4, 5, 6));
    EXPECT_THAT(Message(NpyConfig(path, "", "z")),
                HasSubstr("has no array 'z'; it has other.npy, x.npy"));
  }
}

TEST(NpySourceTest, AMemberWithOtherBytesThanItsChecksumSaysIsRefused) {
  const std::string array = NpyBytes("|u1", "(4,)", "abcd");
  std::string file = ZipBytes({{"x.npy", array}}, /*deflated=*/false);
  file[file.find("abcd")] = 'b';
  const std::string path = WriteTestFile("a.npz", file);
  const auto source = OpenNpy("", NpyConfig(path, "", "x"));
  EXPECT_EQ(source.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(source.status().message()),
      ::testing::MatchesRegex("'" + path +
                              ":x.npy' is damaged: it has the crc32 "
                              "[0-9a-f]{8}; the file says [0-9a-f]{8}"));
}

// What the second row of a file says that is emptied once it is open.
absl::Status ReadOfEmptied(uint64_t row_bytes) {
  const std::string path = WriteTestFile(
      "x.npy", NpyBytes("|u1", absl::StrCat("(2, ", row_bytes, ")"),
                        std::string(2 * row_bytes, 'x')));
  const auto source = OpenNpy("", NpyConfig(path));
  EXPECT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(truncate(path.c_str(), 0), 0);
  Example example;
  return (*source)->Read(1, &example);
}

TEST(NpySourceTest, SmallRowsAreReadOnceAndOthersWhereTheyLie) {
  EXPECT_TRUE(ReadOfEmptied(4095).ok());
  const absl::Status emptied = ReadOfEmptied(4096);
  EXPECT_TRUE(absl::IsDataLoss(emptied)) << emptied;
}

TEST(NpySourceTest, ARowIsNamedByItsFile) {
  const std::string path =
      WriteTestFile("x.npy", NpyBytes("|u1", "(2,)", "ab"));
  EXPECT_EQ((*OpenNpy("", NpyConfig(path)))->Where(1), "'" + path + "' row 1");
}

TEST(NpySourceTest, WhatIsNotSupportedIsNamed) {
  const std::string path =
      WriteTestFile("a.npy", NpyBytes(">f4", "(1,)", "abcd"));
  EXPECT_EQ(Message(NpyConfig(path)),
            absl::StrCat("'", path,
                         "' holds '>f4'; little-endian float32, "
                         "float64, int32, int64, uint8 and bool are known"));
  std::string fortran = NpyBytes("<f4", "(1,)", "abcd");
  fortran.replace(fortran.find("False"), 5, "True ");
  EXPECT_THAT(Message(NpyConfig(WriteTestFile("a.npy", fortran))),
              HasSubstr("is in Fortran's order"));
  EXPECT_THAT(Message(NpyConfig(WriteTestFile("a.npy", "PK and so on..."))),
              HasSubstr("is no .npy file"));
}

TEST(NpySourceTest, ATruncatedArrayIsRefused) {
  const std::string path =
      WriteTestFile("a.npy", NpyBytes("<f4", "(3,)", "abcdefgh"));
  EXPECT_EQ(Message(NpyConfig(path)),
            absl::StrCat("'", path,
                         "' is truncated: it has 8 bytes of values; "
                         "its shape (3,) needs 12"));
}

TEST(NpySourceTest, ArraysOfOtherLengthsAreRefused) {
  const std::string x = WriteTestFile("x.npy", NpyBytes("|u1", "(2,)", "ab"));
  const std::string y = WriteTestFile("y.npy", NpyBytes("|u1", "(3,)", "abc"));
  EXPECT_EQ(Message(NpyConfig(x, y)),
            absl::StrCat("'", y, "' has 3 rows; '", x, "' has 2"));
}

TEST(NpySourceTest, ALabelOutOfRangeIsRefused) {
  const std::string x = WriteTestFile("x.npy", NpyBytes("|u1", "(1,)", "a"));
  const std::string y = WriteTestFile("y.npy", NpyBytes("|u1", "(1,)", "\x05"));
  Example example;
  EXPECT_EQ((*OpenNpy("", NpyConfig(x, y)))->Read(0, &example),
            absl::DataLossError(
                absl::StrCat("'", y,
                             "' row 0: 'label' is 5; it must be at least 0 and "
                             "below 3")));
}

// Whatever is cut off or changed, there is a sentence or a result.
TEST(NpySourceTest, ADamagedFileNeverEndsTheProcess) {
  const std::string array = NpyBytes("<f4", "(2, 1)", "abcdefgh");
  for (const std::string& file : {array, ZipBytes({{"x.npy", array}}, false),
                                  ZipBytes({{"x.npy", array}}, true)}) {
    const std::string member = file == array ? "" : "x";
    for (size_t at = 0; at < file.size(); ++at) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
      for (const std::string& bytes : {file.substr(0, at), changed}) {
        const auto source =
            OpenNpy("", NpyConfig(WriteTestFile("a", bytes), "", member));
        Example example;
        if (source.ok()) {
          (void)(*source)->Read(0, &example);
        } else {
          ASSERT_FALSE(source.status().message().empty());
        }
      }
    }
  }
}

}  // namespace
}  // namespace paramd
