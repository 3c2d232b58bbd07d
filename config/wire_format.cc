#include "config/wire_format.h"

namespace paramd {

NumberFormat FormatOf(v1::JobConfig::WireFormat format) {
  switch (format) {
    case v1::JobConfig::WIRE_FORMAT_BF16:
      return NumberFormat::kBf16;
    case v1::JobConfig::WIRE_FORMAT_FP16:
      return NumberFormat::kFp16;
    default:
      return NumberFormat::kFp32;
  }
}

absl::optional<NumberFormat> FormatOf(v1::Encoding encoding) {
  switch (encoding) {
    case v1::FP32:
      return NumberFormat::kFp32;
    case v1::BF16:
      return NumberFormat::kBf16;
    case v1::FP16:
      return NumberFormat::kFp16;
    default:
      return absl::nullopt;
  }
}

v1::Encoding EncodingOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
      return v1::FP32;
    case NumberFormat::kBf16:
      return v1::BF16;
    case NumberFormat::kFp16:
      return v1::FP16;
  }
  return v1::ENCODING_UNSPECIFIED;
}

}  // namespace paramd
