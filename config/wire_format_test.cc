#include "config/wire_format.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(WireFormatTest, EveryFormatComesBackFromItsEncoding) {
  for (const NumberFormat format :
       {NumberFormat::kFp32, NumberFormat::kBf16, NumberFormat::kFp16}) {
    EXPECT_EQ(FormatOf(EncodingOf(format)), format);
  }
}

TEST(WireFormatTest, AnUnknownEncodingHasNoFormat) {
  EXPECT_EQ(FormatOf(v1::ENCODING_UNSPECIFIED), absl::nullopt);
  EXPECT_EQ(FormatOf(static_cast<v1::Encoding>(99)), absl::nullopt);
}

TEST(WireFormatTest, TheJobFilesNamesAreThoseFormats) {
  EXPECT_EQ(FormatOf(v1::JobConfig::WIRE_FORMAT_UNSPECIFIED),
            NumberFormat::kFp32);
  EXPECT_EQ(FormatOf(v1::JobConfig::WIRE_FORMAT_FP32), NumberFormat::kFp32);
  EXPECT_EQ(FormatOf(v1::JobConfig::WIRE_FORMAT_BF16), NumberFormat::kBf16);
  EXPECT_EQ(FormatOf(v1::JobConfig::WIRE_FORMAT_FP16), NumberFormat::kFp16);
}

}  // namespace
}  // namespace paramd
