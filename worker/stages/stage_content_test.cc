#include "worker/stages/stage_content.h"

#include <numeric>

#include "gtest/gtest.h"

namespace paramd {
namespace {

std::string TextOf(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size()};
}

TEST(StageContentTest, ArraysBeginAtMultiplesOf64AndArriveAsTheyWere) {
  const std::vector<float> first = {1, 2, 3};
  const std::vector<uint64_t> second = {4, 5};
  StageContent content;
  content.Add(DType::kFloat32, {3}, AsBytes<float>(first));
  content.Add(DType::kInt64, {2, 1}, AsBytes<uint64_t>(second));
  EXPECT_EQ(content.bytes(), 64u + 16u);
  const auto bytes = ArrayBytes(content.arrays());
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(ContentBytes(*bytes), content.bytes());
  const Buffer whole = content.Copy(0, content.bytes());
  const auto arrays = ArraysIn(content.arrays(), *bytes, whole);
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].values<float>()[2], 3);
  EXPECT_EQ(arrays[1].values<int64_t>()[1], 5);
  EXPECT_EQ(arrays[1].dims, (Dims{2, 1}));
}

TEST(StageContentTest, PiecesOfAnySizeAreTheWhole) {
  std::vector<uint8_t> bytes(300);
  std::iota(bytes.begin(), bytes.end(), 0);
  StageContent content;
  for (const size_t size : {5, 100, 0, 195}) {
    content.Add(DType::kUInt8, {size}, AsBytes<uint8_t>({bytes.data(), size}));
  }
  const std::string whole = TextOf(content.Copy(0, content.bytes()));
  for (const uint64_t length : {1, 7, 64, 100, 1000}) {
    std::string joined;
    for (uint64_t at = 0; at < content.bytes(); at += length) {
      joined += TextOf(content.Copy(at, length));
    }
    EXPECT_EQ(joined, whole) << length;
  }
}

TEST(StageContentTest, APieceOfAResultGoesWhereItsArraysAre) {
  std::vector<std::byte> first(3), second(5);
  const std::vector<absl::Span<std::byte>> to = {
      absl::MakeSpan(first), absl::Span<std::byte>(), absl::MakeSpan(second)};
  BufferChain piece;
  piece.push_back(Buffer::Copy(std::string("ab")));
  piece.push_back(Buffer::Copy(std::string("cd")));
  EXPECT_TRUE(PutPiece(piece, 2, to));
  EXPECT_EQ(first[2], std::byte{'a'});
  EXPECT_EQ(second[0], std::byte{'b'});
  EXPECT_EQ(second[2], std::byte{'d'});
  EXPECT_FALSE(PutPiece(piece, 5, to));
}

TEST(StageContentTest, ArraysThatMakeNoSenseAreRefused) {
  StageArrays arrays;
  arrays.Add()->set_dtype(99);
  EXPECT_EQ(ArrayBytes(arrays).status().code(),
            absl::StatusCode::kInvalidArgument);
  arrays.Clear();
  AddArray(DType::kFloat32, {uint64_t{1} << 40, uint64_t{1} << 40}, &arrays);
  EXPECT_EQ(ArrayBytes(arrays).status().code(),
            absl::StatusCode::kInvalidArgument);
  arrays.Clear();
  AddArray(DType::kFloat32, {uint64_t{1} << 60, 0}, &arrays);
  EXPECT_EQ(ArrayBytes(arrays)->front(), 0u);
}

TEST(StageContentTest, WhatExamplesLookLikeArrivesAsItWas) {
  InputSpec input = LabelledImages({28, 28}, 10);
  input.features.push_back(
      {.name = "words", .dtype = DType::kInt64, .dims = {7}, .ragged = true});
  google::protobuf::RepeatedPtrField<v1::StageFeature> features;
  ToProto(input, &features);
  const auto read = ToInput(features);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, input);
}

}  // namespace
}  // namespace paramd
