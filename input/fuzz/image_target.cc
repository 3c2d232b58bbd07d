// Whatever a PNG or JPEG file holds, it is an image of the channels that are
// wanted, of no more pixels than its bytes can stand for, or is refused.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "input/decode_image.h"
#include "input/exif.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const std::byte> file(
      reinterpret_cast<const std::byte*>(data), size);
  const int orientation = paramd::ExifOrientation(file);
  CHECK(orientation >= 1 && orientation <= 8, "an orientation is one of eight");
  for (const uint32_t channels : {1u, 3u}) {
    paramd::OwnedTensor image;
    const absl::Status decoded = paramd::DecodeUpright(file, channels, &image);
    if (!decoded.ok()) {
      paramd::fuzz::CheckRefusal(decoded);
      continue;
    }
    CHECK(image.dtype() == paramd::DType::kUInt8, "an image is of bytes");
    CHECK(image.dims().size() == 3 && image.dims()[2] == channels,
          "of the channels that are wanted");
    CHECK(image.size() > 0, "and has pixels");
  }
  return 0;
}
