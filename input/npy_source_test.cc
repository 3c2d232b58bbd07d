#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/sources.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"
#include "input/transform.h"

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
      WriteTestFile("a.npy", NpyBytes("<c8", "(1,)", "abcdefgh"));
  EXPECT_EQ(Message(NpyConfig(path)),
            absl::StrCat("'", path,
                         "' holds '<c8'; bool, int8 to int64, uint8 to uint64, "
                         "and float16 to float64 are known"));
  for (const char* type : {"<f16", "|S4", "<U4", "|O", "<M8[s]", "<i3", "<f1",
                           "<b4", "|V8", "f4", "<f4<"}) {
    EXPECT_THAT(Message(NpyConfig(WriteTestFile(
                    "a.npy", NpyBytes(type, "(1,)", std::string(64, 'x'))))),
                HasSubstr(absl::StrCat("holds '", type, "'; bool")));
  }
  EXPECT_THAT(Message(NpyConfig(WriteTestFile("a.npy", "PK and so on..."))),
              HasSubstr("is no .npy file"));
}

// The bytes of numbers of this type, as NumPy writes them.
std::string StoredAs(const std::string& type, std::vector<double> numbers) {
  std::string all;
  const auto add = [&](auto number) {
    std::string bytes = ValueBytes<decltype(number)>({number});
    if (type[0] == '>') std::reverse(bytes.begin(), bytes.end());
    all += bytes;
  };
  const std::string kind = type.substr(1);
  for (const double number : numbers) {
    if (kind == "f8") add(number);
    if (kind == "f4") add(static_cast<float>(number));
    if (kind == "i8") add(static_cast<int64_t>(number));
    if (kind == "i4") add(static_cast<int32_t>(number));
    if (kind == "i2") add(static_cast<int16_t>(number));
    if (kind == "i1") add(static_cast<int8_t>(number));
    if (kind == "u8") add(static_cast<uint64_t>(number));
    if (kind == "u4") add(static_cast<uint32_t>(number));
    if (kind == "u2") add(static_cast<uint16_t>(number));
    if (kind == "u1") add(static_cast<uint8_t>(number));
    if (kind == "b1") add(static_cast<uint8_t>(number != 0));
  }
  return all;
}

std::string InFortransOrder(std::string npy) {
  const size_t at = npy.find("False");
  npy.replace(at, 5, "True ");
  return npy;
}

TEST(NpySourceTest, ArraysAreOfAnyTypeByteOrderAndOrder) {
  struct Case {
    const char* type;
    DType dtype;
    double least, most;
  };
  for (const Case& one : {
           Case{"b1", DType::kUInt8, 0, 1},
           Case{"i1", DType::kInt32, -128, 127},
           Case{"i2", DType::kInt32, -32768, 32767},
           Case{"i4", DType::kInt32, -2147483648.0, 2147483647},
           Case{"i8", DType::kInt64, -4611686018427387904.0, 9007199254740992},
           Case{"u1", DType::kUInt8, 0, 255},
           Case{"u2", DType::kInt32, 0, 65535},
           Case{"u4", DType::kInt64, 0, 4294967295},
           Case{"u8", DType::kInt64, 0, 4611686018427387904.0},
           Case{"f4", DType::kFloat32, -1.5, 0x1p100},
           Case{"f8", DType::kFloat64, -1e-300, 1e300},
       }) {
    // Rows of 2 x 2.
    const std::vector<double> c = {one.least, one.most,  0,        1,  //
                                   1,         one.least, one.most, 0};
    const std::vector<double> fortran = {c[0], c[4], c[2], c[6],
                                         c[1], c[5], c[3], c[7]};
    for (const std::string order : {"<", ">", "|", "="}) {
      const std::string type = order + one.type;
      for (const std::string& npy :
           {NpyBytes(type, "(2, 2, 2)", StoredAs(type, c)),
            InFortransOrder(
                NpyBytes(type, "(2, 2, 2)", StoredAs(type, fortran)))}) {
        const auto source = OpenNpy("", NpyConfig(WriteTestFile("a.npy", npy)));
        ASSERT_TRUE(source.ok()) << type << source.status();
        EXPECT_EQ((*source)->spec().features[0].dtype, one.dtype) << type;
        std::vector<double> found;
        for (uint64_t row = 0; row < 2; ++row) {
          Example example;
          ASSERT_TRUE((*source)->Read(row, &example).ok());
          ASSERT_EQ(example.values[0].dtype(), one.dtype);
          EXPECT_THAT(example.values[0].dims(), ElementsAre(2, 2));
          for (uint64_t i = 0; i < 4; ++i) {
            found.push_back(NumberAt(example.values[0], i));
          }
        }
        EXPECT_EQ(found, c) << type;
      }
    }
  }
}

TEST(NpySourceTest, AHalfIsReadAsItsFloat) {
  // Of IEEE 754: 1, -2, the largest, the least normal one, the least of all, 0.
  const std::vector<uint16_t> bits = {0x3c00, 0xc000, 0x7bff, 0x0400,
                                      0x0001, 0,      0x7c00, 0xfe00};
  const auto source =
      OpenNpy("", NpyConfig(WriteTestFile(
                      "a.npy", NpyBytes("<f2", "(1, 8)", ValueBytes(bits)))));
  ASSERT_TRUE(source.ok()) << source.status();
  Example example;
  ASSERT_TRUE((*source)->Read(0, &example).ok());
  const auto values = example.values[0].values<float>();
  EXPECT_THAT(values.subspan(0, 7),
              ElementsAre(1, -2, 65504, 0x1p-14f, 0x1p-24f, 0, INFINITY));
  EXPECT_TRUE(std::isnan(values[7]));
}

TEST(NpySourceTest, ALargeArrayInFortransOrderIsReordered) {
  const uint64_t rows = 300'000, columns = 3;
  std::vector<int32_t> stored;
  for (uint64_t c = 0; c < columns; ++c) {
    for (uint64_t r = 0; r < rows; ++r) {
      stored.push_back(static_cast<int32_t>(r * columns + c));
    }
  }
  const auto source =
      OpenNpy("", NpyConfig(WriteTestFile(
                      "a.npy", InFortransOrder(NpyBytes("<i4", "(300000, 3)",
                                                        ValueBytes(stored))))));
  ASSERT_TRUE(source.ok()) << source.status();
  for (const int32_t row : {0, 1, 299'999}) {
    Example example;
    ASSERT_TRUE((*source)->Read(static_cast<uint64_t>(row), &example).ok());
    EXPECT_THAT(example.values[0].values<int32_t>(),
                ElementsAre(3 * row, 3 * row + 1, 3 * row + 2));
  }
}

TEST(NpySourceTest, ClassesAreWholeNumbersOfAnyType) {
  const std::string x = WriteTestFile("x.npy", NpyBytes("|u1", "(2,)", "ab"));
  for (const char* type : {"<f8", ">f4", "<u8", ">i2", "|b1", "|i1"}) {
    const auto source = OpenNpy(
        "",
        NpyConfig(x, WriteTestFile("y.npy", NpyBytes(type, "(2,)",
                                                     StoredAs(type, {1, 0})))));
    ASSERT_TRUE(source.ok()) << source.status();
    Example example;
    ASSERT_TRUE((*source)->Read(0, &example).ok()) << type;
    EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(1));
  }
  const auto refused = [&](const std::string& type, double label) {
    const std::string y = WriteTestFile(
        "y.npy", NpyBytes(type, "(2,)", StoredAs(type, {0, label})));
    Example example;
    return std::string(
        (*OpenNpy("", NpyConfig(x, y)))->Read(1, &example).message());
  };
  EXPECT_THAT(refused("<f8", 1.5),
              HasSubstr("y.npy' row 1: 'label' is 1.5; it must be a whole"));
  EXPECT_THAT(refused("<f8", NAN), HasSubstr("'label' is nan; it must be"));
  EXPECT_THAT(refused("<u8", 0x1p63),
              HasSubstr("'label' is 9223372036854775808; it must be a whole"));
  EXPECT_THAT(refused("<f4", 3),
              HasSubstr("'label' is 3; it must be at least"));
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
