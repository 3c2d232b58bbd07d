#include "checkpoint/safetensors.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kW[] =
    R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";

std::vector<TensorInfo> TwoTensors() {
  return {{"w", "F32", {2, 3}, 0, 24}, {"b", "F32", {}, 24, 28}};
}

std::string JsonOf(const std::string& header) { return header.substr(8); }

// The sentence with which `json` is refused; empty if it is not.
std::string Refusal(const std::string& json, uint64_t data_bytes) {
  const auto parsed = ParseSafetensorsHeader(json, data_bytes);
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
  return std::string(parsed.status().message());
}

std::string Write(const std::string& name, const std::string& content) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string LittleEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

TEST(SafetensorsHeaderTest, IsPaddedJsonBehindItsLength) {
  const auto header = EncodeSafetensorsHeader(TwoTensors());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->size() % 8, 0u);
  EXPECT_EQ(header->substr(0, 8), LittleEndian(header->size() - 8));
  EXPECT_THAT(*header,
              HasSubstr(absl::StrCat(R"({"__metadata__":{"format":"pt"},)", kW,
                                     ",", R"("b":{"dtype":"F32","shape":[],)",
                                     R"("data_offsets":[24,28]}})")));
}

TEST(SafetensorsHeaderTest, ReadsWhatItWrote) {
  std::vector<TensorInfo> tensors = TwoTensors();
  tensors.push_back({"q\"uo\\te\n\x01 é 漢 [0:4]/slot:x", "F32", {1}, 28, 32});
  tensors.push_back({"empty", "F32", {0, 7}, 32, 32});
  const auto header = EncodeSafetensorsHeader(tensors);
  ASSERT_TRUE(header.ok()) << header.status();
  const auto read = ParseSafetensorsHeader(JsonOf(*header), 32);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*read)[i].name, tensors[i].name);
    EXPECT_EQ((*read)[i].dtype, tensors[i].dtype);
    EXPECT_EQ((*read)[i].shape, tensors[i].shape);
    EXPECT_EQ((*read)[i].begin, tensors[i].begin);
    EXPECT_EQ((*read)[i].end, tensors[i].end);
  }
}

TEST(SafetensorsHeaderTest, WithoutTensorsIsAHeaderToo) {
  const auto header = EncodeSafetensorsHeader({});
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_TRUE(ParseSafetensorsHeader(JsonOf(*header), 0)->empty());
}

TEST(SafetensorsHeaderTest, TensorsMayStandInAnyOrder) {
  const auto read = ParseSafetensorsHeader(
      R"({"b":{"shape":[4],"data_offsets":[4,8],"dtype":"U8"},)"
      R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}   )",
      8);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)[0].name, "a");
  EXPECT_EQ((*read)[1].name, "b");
}

TEST(SafetensorsHeaderTest, WhatTheReaderWouldRefuseIsNotWritten) {
  const auto refused = [](std::vector<TensorInfo> tensors) {
    return EncodeSafetensorsHeader(tensors).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({{"w", "F32", {2}, 0, 8}, {"w", "F32", {2}, 8, 16}}));
  EXPECT_TRUE(refused({{"w", "F32", {2}, 0, 4}}));
  EXPECT_TRUE(refused({{"w", "", {2}, 0, 8}}));
  EXPECT_TRUE(refused({{"", "F32", {2}, 0, 8}}));
  EXPECT_TRUE(refused({{"not UTF-8: \xff", "F32", {2}, 0, 8}}));
  EXPECT_TRUE(refused({{"__metadata__", "F32", {2}, 0, 8}}));
  EXPECT_TRUE(refused({{std::string(2000, 'w'), "F32", {2}, 0, 8}}));
}

TEST(SafetensorsHeaderTest, HolesOverlapsAndLeftOversAreRefused) {
  const auto two = [](int begin, int end) {
    return absl::StrCat("{", kW, R"(,"b":{"dtype":"F32","shape":[1],)",
                        R"("data_offsets":[)", begin, ",", end, "]}}");
  };
  EXPECT_EQ(Refusal(two(24, 28), 28), "");
  EXPECT_THAT(Refusal(two(28, 32), 32),
              HasSubstr("begins at byte 28; the one before ends at byte 24"));
  EXPECT_THAT(Refusal(two(20, 24), 24), HasSubstr("begins at byte 20"));
  EXPECT_THAT(Refusal(two(0, 4), 24), HasSubstr("'w' begins at byte 0"));
  EXPECT_THAT(Refusal(two(24, 28), 29), HasSubstr("29 follow the header"));
  EXPECT_THAT(Refusal(two(24, 28), 27), HasSubstr("27 follow the header"));
  EXPECT_THAT(Refusal(two(28, 24), 28), HasSubstr("has offsets [28, 24)"));
}

TEST(SafetensorsHeaderTest, ASizeThatIsNotTheShapesIsRefused) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return absl::StrCat(R"({"w":{"dtype":")", dtype, R"(","shape":[)", shape,
                        R"(],"data_offsets":[)", offsets, "]}}");
  };
  EXPECT_EQ(Refusal(one("F32", "2,3", "0,24"), 24), "");
  EXPECT_THAT(Refusal(one("F64", "2,3", "0,24"), 24), HasSubstr("48 bytes"));
  EXPECT_THAT(Refusal(one("F33", "2,3", "0,24"), 24),
              HasSubstr("unknown dtype 'F33'"));
  EXPECT_THAT(Refusal(one("F32", "4294967296,4294967296", "0,0"), 0),
              HasSubstr("more than 64 bits can count"));
  EXPECT_THAT(Refusal(one("F32", "576460752303423488", "0,0"), 0),
              HasSubstr("more than 64 bits can count"));
  EXPECT_NE(Refusal(one("F4", "3", "0,1"), 1), "");
  EXPECT_NE(Refusal(one("F32", "1,1,1,1,1,1,1,1,1", "0,4"), 4), "");
  EXPECT_NE(Refusal(one("F32", "-1", "0,4"), 4), "");
  EXPECT_NE(Refusal(one("F32", "1.0", "0,4"), 4), "");
  EXPECT_NE(Refusal(one("F32", "36893488147419103232", "0,4"), 4), "");
  EXPECT_NE(Refusal(one("F32", "1", "0"), 4), "");
  EXPECT_NE(Refusal(one("F32", "1", "0,4,8"), 4), "");
  EXPECT_NE(Refusal(one("F32", "[1]", "0,4"), 4), "");
}

TEST(SafetensorsHeaderTest, ANameOrKeyThatStandsTwiceIsRefused) {
  EXPECT_THAT(Refusal(absl::StrCat("{", kW, ",", kW, "}"), 24),
              HasSubstr("a name that stands twice"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],)"
                      R"("data_offsets":[0,4]}})",
                      4),
              HasSubstr("a key that stands twice"));
  EXPECT_NE(Refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "");
}

TEST(SafetensorsHeaderTest, OtherJsonIsRefused) {
  for (const char* json :
       {"",
        " ",
        "[]",
        "null",
        "{",
        "{}}",
        "{} x",
        " {}",
        "{}\n",
        "{\"w\":1}",
        "{\"w\":[]}",
        "{\"w\":null}",
        "{\"w\":{}}",
        "{\"w\":{\"dtype\":\"F32\"}}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":[]}",
        "{\"__metadata__\":{\"a\":{}}}",
        "{\"w\":{\"dtype\":1}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],"
        "\"more\":1}}",
        "{\"w\":{\"dtype\":[],\"shape\":[],\"data_offsets\":[0,4]}}",
        "\xef\xbb\xbf{}",
        "{\"\xff\":{}}"}) {
    EXPECT_NE(Refusal(json, 4), "") << json;
  }
}

TEST(SafetensorsHeaderTest, DeepJsonIsRefusedWithoutADeepStack) {
  std::string deep = "{\"w\":";
  for (int i = 0; i < 1000000; ++i) deep += "[";
  EXPECT_NE(Refusal(deep + "}", 4), "");
}

TEST(SafetensorsHeaderTest, NoDamageToItsBytesEndsTheProcess) {
  const std::string header = *EncodeSafetensorsHeader(TwoTensors());
  RandomStream random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = JsonOf(header);
    for (int flips = 1 + static_cast<int>(random.Below(4)); flips > 0;
         --flips) {
      damaged[random.Below(damaged.size())] =
          static_cast<char>(random.Below(256));
    }
    if (random.Chance(0.3)) damaged.resize(random.Below(damaged.size()));
    // Any answer will do, as long as what is taken is without holes.
    const auto parsed = ParseSafetensorsHeader(damaged, 28);
    if (parsed.ok()) {
      EXPECT_EQ(parsed->back().end, 28u);
    }
  }
}

TEST(SafetensorsFileTest, ReadsPartsOfTensors) {
  const std::string path =
      Write("parts", *EncodeSafetensorsHeader(TwoTensors()) +
                         "abcdefghijklmnopqrstuvwxyz01");
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo* const b = (*file)->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ((*file)->Find("nobody"), nullptr);
  BufferChain out;
  ASSERT_TRUE((*file)->Read(*b, 1, 3, &out).ok());
  ASSERT_TRUE((*file)->Read(*(*file)->Find("w"), 22, 2, &out).ok());
  EXPECT_EQ(FlattenForTest(out), "z01wx");
}

TEST(SafetensorsFileTest, ReadsLongRangesInPieces) {
  const uint64_t bytes = (uint64_t{9} << 20) + 4;
  std::vector<TensorInfo> tensors = {{"big", "F32", {bytes / 4}, 0, bytes}};
  std::string data(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 7 >> 3);
  const auto file = SafetensorsFile::Open(
      Write("big", *EncodeSafetensorsHeader(tensors) + data));
  BufferChain out;
  ASSERT_TRUE((*file)->Read((*file)->tensors()[0], 3, bytes - 3, &out).ok());
  EXPECT_EQ(out.size(), 3u);
  for (const Buffer& piece : out) EXPECT_LE(piece.size(), size_t{4} << 20);
  EXPECT_EQ(FlattenForTest(out), data.substr(3));
}

TEST(SafetensorsFileTest, AHeaderLongerThanTheFileIsNotAllocated) {
  for (const uint64_t length :
       {uint64_t{5}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    const auto file =
        SafetensorsFile::Open(Write("long", LittleEndian(length) + "{} "));
    EXPECT_EQ(file.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(file.status().message()),
                HasSubstr("the header is longer than what the file has"));
  }
}

TEST(SafetensorsFileTest, APointerOfGitLfsIsNamed) {
  const std::string path = Write("pointer",
                                 "version https://git-lfs.github.com/spec/v1\n"
                                 "oid sha256:4d7a2146\nsize 12345\n");
  EXPECT_EQ(SafetensorsFile::Open(path).status(),
            absl::FailedPreconditionError(absl::StrCat(
                "'", path,
                "' is a Git LFS pointer, not the file: run git lfs pull")));
}

TEST(SafetensorsFileTest, AFileCutOffAnywhereIsRefused) {
  const std::string whole =
      *EncodeSafetensorsHeader(TwoTensors()) + std::string(28, 'x');
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto file =
        SafetensorsFile::Open(Write("cut", whole.substr(0, length)));
    EXPECT_EQ(file.status().code(), absl::StatusCode::kDataLoss) << length;
  }
}

TEST(SafetensorsFileTest, AFileThatShrinksWhileOpenIsDataLoss) {
  const std::string path = Write(
      "shrinks", *EncodeSafetensorsHeader(TwoTensors()) + std::string(28, 'x'));
  const auto file = SafetensorsFile::Open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  BufferChain out;
  const absl::Status status = (*file)->Read(*(*file)->Find("b"), 0, 4, &out);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST(SafetensorsFileTest, AMissingFileIsNamed) {
  const auto file = SafetensorsFile::Open("/nowhere/at all");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr("'/nowhere/at all'"));
}

}  // namespace
}  // namespace paramd
