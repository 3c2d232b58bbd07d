#include "checkpoint/quantization.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/directory.h"
#include "checkpoint/inspect.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/verify.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using testing::SampleVariable;

std::string OfFloats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Quantization SomeQuantization() {
  Quantization quantization;
  quantization.most_weight = 63;
  quantization.per_channel = false;
  quantization.observer = "entropy";
  quantization.calibrated_on = "a\xff\"b";
  quantization.examples = 12;
  quantization.layers = {
      {"dense_1", "dense", "", Quantization::Input{0.1f, 7}},
      {"conv2d_1", "conv2d", "batch_norm_1", Quantization::Input{1e-30f, 0}}};
  quantization.left = {{"conv2d_2", "of 1 channel"}};
  return quantization;
}

// Of a matrix in integers, one in halves and a vector as it is.
class QuantizationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "quantised";
    std::filesystem::remove_all(directory_);
    for (const auto& variable :
         {SampleVariable("w", {2, 3}), SampleVariable("h", {2, 2}),
          SampleVariable("b", {3})}) {
      *manifest_.add_variables() = variable;
    }
    manifest_.mutable_snapshot()->set_term(1);
    manifest_.mutable_snapshot()->set_counter(2);
    manifest_.set_global_step(9);
    manifest_.add_slots("momentum");
    std::string halves(8, '\0');
    const std::vector<float> numbers = {1, -2, 0.5f, 3};
    EncodeNumbers(NumberFormat::kFp16, numbers.data(), 4,
                  reinterpret_cast<std::byte*>(halves.data()));
    tensors_ = {{"w",
                 "I8",
                 {2, 3},
                 std::string("\x01\xfe\x03\x7f\x81\x00", 6),
                 {0.5f, 0.25f, 2}},
                {"h", "F16", {2, 2}, halves, {}},
                {"b", "F32", {3}, OfFloats({7, 8, 9}), {}}};
  }

  absl::StatusOr<uint64_t> Write() {
    Quantization quantization = SomeQuantization();
    return WriteQuantized(directory_, manifest_, quantization, tensors_);
  }

  std::vector<float> Read(const std::string& name) {
    auto reader = CheckpointReader::Open(directory_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    BufferChain chain;
    const SliceIndex::Entry* const entry = (*reader)->index().Find(name);
    CheckpointReader::Numbers numbers{entry, ""};
    EXPECT_TRUE((*reader)->Read(numbers, 0, numbers.bytes(), &chain).ok());
    std::vector<float> values(numbers.bytes() / sizeof(float));
    ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(values)));
    EXPECT_TRUE((*reader)->Finish().ok());
    return values;
  }

  std::string directory_;
  v1::Manifest manifest_;
  std::vector<QuantizedTensor> tensors_;
};

TEST_F(QuantizationTest, WhatIsWrittenIsReadAsFloats) {
  const auto bytes = Write();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(Read("w"), (std::vector<float>{0.5f, -0.5f, 6, 63.5f, -31.75f, 0}));
  EXPECT_EQ(Read("h"), (std::vector<float>{1, -2, 0.5f, 3}));
  EXPECT_EQ(Read("b"), (std::vector<float>{7, 8, 9}));
  const auto manifest = VerifyCheckpoint(directory_, {});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_TRUE(IsQuantized(*manifest));
  EXPECT_EQ(manifest->min_reader(), 3);
  EXPECT_EQ(manifest->slots_size(), 0);
  EXPECT_EQ(CheckpointBytes(*manifest), *bytes);
}

TEST_F(QuantizationTest, PartsAreReadAsTheWholeIs) {
  ASSERT_TRUE(Write().ok());
  const std::vector<float> whole = Read("w");
  auto reader = CheckpointReader::Open(directory_);
  ASSERT_TRUE(reader.ok());
  const CheckpointReader::Numbers numbers{(*reader)->index().Find("w"), ""};
  for (uint64_t begin = 0; begin < 6; ++begin) {
    for (uint64_t end = begin + 1; end <= 6; ++end) {
      BufferChain chain;
      ASSERT_TRUE(
          (*reader)->Read(numbers, begin * 4, (end - begin) * 4, &chain).ok());
      std::vector<float> part(end - begin);
      ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(part)));
      EXPECT_EQ(part,
                std::vector<float>(whole.begin() + begin, whole.begin() + end));
    }
  }
  EXPECT_TRUE((*reader)->Finish().ok());
}

TEST_F(QuantizationTest, ItsIntegersAndWhatItSaysAreReadAsTheyAre) {
  ASSERT_TRUE(Write().ok());
  const auto said = ReadQuantization(directory_);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(EncodeQuantization(*said), EncodeQuantization(SomeQuantization()));
  EXPECT_EQ(said->Find("conv2d_1")->folded, "batch_norm_1");
  EXPECT_EQ(said->Find("conv2d_1")->input->scale, 1e-30f);
  EXPECT_EQ(said->Find("conv2d_2"), nullptr);
  const auto tensors = ReadIntegerTensors(directory_, {"w"});
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("w").values,
            (std::vector<int8_t>{1, -2, 3, 127, -127, 0}));
  EXPECT_EQ(tensors->at("w").scales, (std::vector<float>{0.5f, 0.25f, 2}));
  EXPECT_EQ(ReadIntegerTensors(directory_, {"h"}).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(QuantizationTest, ATurnedBitIsNamed) {
  ASSERT_TRUE(Write().ok());
  const std::string path = directory_ + "/" + kQuantizedFile;
  const auto size = std::filesystem::file_size(path);
  for (uint64_t at = 0; at < size; at += 7) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char was = static_cast<char>(file.get());
    const auto put = [&](char byte) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
      file.flush();
    };
    put(static_cast<char>(was ^ 4));
    EXPECT_FALSE(VerifyCheckpoint(directory_, {}).ok()) << at;
    EXPECT_FALSE(ReadIntegerTensors(directory_, {"w"}).ok()) << at;
    put(was);
  }
  EXPECT_TRUE(VerifyCheckpoint(directory_, {}).ok());
}

TEST_F(QuantizationTest, ADirectoryThatIsThereIsLeftAsItIs) {
  ASSERT_TRUE(Write().ok());
  EXPECT_EQ(Write().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(VerifyCheckpoint(directory_, {}).ok());
}

TEST_F(QuantizationTest, NothingIsTrainedOnFromIt) {
  const std::string root = ::testing::TempDir() + "resumed/checkpoints";
  std::filesystem::remove_all(::testing::TempDir() + "resumed");
  std::filesystem::create_directories(root);
  directory_ = root + "/" + FormatCheckpointName(manifest_.snapshot(), 9);
  ASSERT_TRUE(Write().ok());
  for (const std::string& where : {root, directory_, directory_ + "/below"}) {
    CheckpointDirectory directory(where, /*nonce=*/1);
    const auto found = directory.Find({});
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument)
        << where;
    EXPECT_THAT(std::string(found.status().message()),
                HasSubstr("is quantised, and nothing can be trained on"));
  }
}

TEST_F(QuantizationTest, InspectShowsIt) {
  tensors_[0].name = "dense_1/kernel";
  manifest_.mutable_variables(0)->set_name("dense_1/kernel");
  Quantization quantization = SomeQuantization();
  quantization.layers.pop_back();
  ASSERT_TRUE(
      WriteQuantized(directory_, manifest_, quantization, tensors_).ok());
  const auto text = InspectCheckpoint(directory_, true);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("-63 to 63: right on every processor"));
  EXPECT_THAT(*text, HasSubstr("entropy of 12 examples"));
  EXPECT_THAT(*text, HasSubstr("in float  conv2d_2  of 1 channel"));
  EXPECT_THAT(*text, HasSubstr("0.1"));
}

// So that a version that knows 8 bits alone computes nothing else.
TEST(ParseQuantizationTest, Of16BitsNoZeroPointIsSaid) {
  Quantization quantization = SomeQuantization();
  EXPECT_EQ(EncodeQuantization(quantization).find("activation_bits"),
            std::string::npos);
  quantization.activation_bits = 16;
  const std::string text = EncodeQuantization(quantization);
  EXPECT_THAT(text, HasSubstr(R"("activation_bits":16)"));
  EXPECT_EQ(text.find("zero_point"), std::string::npos);
  const auto read = ParseQuantization(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->activation_bits, 16);
  EXPECT_EQ(read->Find("dense_1")->input->scale, 0.1f);
  EXPECT_EQ(read->Find("dense_1")->input->zero_point, 0);
  EXPECT_EQ(RangeText(*read),
            "inputs -32767 to 32767, weights -63 to 63: sums of 64 bits, right "
            "on every processor");
}

TEST(ParseQuantizationTest, WhatIsNoneIsSaid) {
  for (
      const char* const text :
      {"", "[]", "{}", R"({"mode":"static"})",
       R"({"mode":"int2","layers":[],"float":[]})",
       R"({"mode":"static","layers":[{"name":"a","kind":"dense"}],"float":[]})",
       R"({"mode":"float16","float":[],"layers":[{"name":"a",
            "kind":"dense"}]})",
       R"({"mode":"static","most_weight":200,"layers":[],"float":[]})",
       R"({"mode":"static","activation_bits":12,"layers":[],"float":[]})",
       R"({"mode":"dynamic","activation_bits":16,"layers":[],"float":[]})",
       R"({"mode":"static","activation_bits":4294967304,"layers":[],
            "float":[]})",
       R"({"mode":"static","activation_bits":8.5,"layers":[],"float":[]})",
       R"({"mode":"static","activation_bits":"8","layers":[],"float":[]})",
       R"({"mode":"static","most_weight":4294967423,"layers":[],"float":[]})",
       R"({"mode":"static","activation_bits":16,"float":[],"layers":[
            {"name":"a","kind":"dense","input_scale":1,
             "input_zero_point":3}]})",
       R"({"mode":"static","float":[],"layers":[{"name":"a","kind":"dense",
            "input_scale":1,"input_zero_point":4294967299}]})",
       R"({"mode":"static","float":[],"layers":[{"name":"a","kind":"dense",
            "input_scale":1}]})",
       R"({"mode":"static","float":[],"layers":[{"name":"a","kind":"dense",
            "input_scale":0,"input_zero_point":0}]})",
       R"({"mode":"static","float":[],"layers":[{"name":"a","kind":"dense",
            "input_scale":1,"input_zero_point":256}]})"}) {
    EXPECT_EQ(ParseQuantization(text).status().code(),
              absl::StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace paramd
