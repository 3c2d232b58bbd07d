#include "checkpoint/tensor_bundle.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "checkpoint/sorted_table.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TensorBundleTest : public ::testing::Test {
 protected:
  TensorBundleTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  static absl::Span<const std::byte> Bytes(const std::string& text) {
    return AsBytes<char>({text.data(), text.size()});
  }

  const std::string directory_;
};

TEST_F(TensorBundleTest, AnEntryIsWhatTheProtoSays) {
  auto bundle = TensorBundleWriter::Create(directory_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  ASSERT_TRUE((*bundle)->Begin({"b", NumberFormat::kFp32, {300, 1}}).ok());
  ASSERT_TRUE((*bundle)->Append(Bytes(std::string(1200, 'b'))).ok());
  ASSERT_TRUE((*bundle)->Begin({"a", NumberFormat::kBf16, {}}).ok());
  ASSERT_TRUE((*bundle)->Append(Bytes("x")).ok());
  ASSERT_TRUE((*bundle)->Append(Bytes("y")).ok());
  ASSERT_TRUE((*bundle)->Finish().ok());
  EXPECT_EQ(*ReadWholeFile(directory_ + "/ckpt.data-00000-of-00001", 10000),
            std::string(1200, 'b') + "xy");
  const std::string index = *ReadWholeFile(directory_ + "/ckpt.index", 10000);
  const auto masked = [](const std::string& text) {
    const uint32_t crc = MaskedCrc32c(Crc32c(Bytes(text)));
    return std::string(reinterpret_cast<const char*>(&crc), sizeof(crc));
  };
  // dtype BFLOAT16, an empty shape, offset 1200, 2 bytes.
  EXPECT_THAT(
      index, HasSubstr(absl::StrCat("a", "\x08\x0e\x12", std::string(1, '\0'),
                                    "\x20\xb0\x09\x28\x02\x35", masked("xy"))));
  // dtype FLOAT, dimensions 300 and 1, offset 0, 1200 bytes.
  EXPECT_THAT(index,
              HasSubstr(absl::StrCat(
                  "b", "\x08\x01\x12\x09\x12\x03\x08\xac\x02\x12\x02\x08\x01",
                  "\x20", std::string(1, '\0'), "\x28\xb0\x09\x35",
                  masked(std::string(1200, 'b')))));
}

TEST_F(TensorBundleTest, NamesAreThereOnceAndNotEmpty) {
  auto bundle = TensorBundleWriter::Create(directory_);
  ASSERT_TRUE((*bundle)->Begin({"w"}).ok());
  EXPECT_EQ((*bundle)->Begin({"w"}).message(), "two tensors have the name 'w'");
  EXPECT_EQ((*bundle)->Begin({""}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TensorBundleTest, UnlessItIsFinishedNothingStays) {
  {
    auto bundle = TensorBundleWriter::Create(directory_);
    ASSERT_TRUE((*bundle)->Begin({"w"}).ok());
    EXPECT_THAT(*ListDirectory(directory_),
                ElementsAre("ckpt.data-00000-of-00001"));
    EXPECT_EQ(TensorBundleWriter::Create(directory_).status().code(),
              absl::StatusCode::kAlreadyExists);
  }
  EXPECT_THAT(*ListDirectory(directory_), IsEmpty());
}

}  // namespace
}  // namespace paramd
