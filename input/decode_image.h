#ifndef PARAMD_INPUT_DECODE_IMAGE_H_
#define PARAMD_INPUT_DECODE_IMAGE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "input/example.h"

namespace paramd {

// The most pixels that an image may have.
constexpr uint64_t kMaxPixels = uint64_t{1} << 28;

// Overwrites `out` with the uint8 image [height, width, channels] of a PNG or
// JPEG file (told by its first bytes), as TensorFlow's decode_png and
// decode_jpeg give it: of 16 bits the upper 8 stay, alpha is dropped and what
// it hides stays, gamma and colour profiles change nothing, CMYK becomes RGB;
// grey becomes colour as needed, and colour grey as PIL makes it. Pixels stay
// as they are stored (see ExifOrientation). DATA_LOSS, in the library's words,
// if it is truncated or damaged, before it takes memory for pixels that so few
// bytes can't stand for, and if it is neither format;
// RESOURCE_EXHAUSTED beyond kMaxPixels. REQUIRES: channels is 1 or 3.
absl::Status DecodeImage(absl::Span<const std::byte> bytes, uint32_t channels,
                         OwnedTensor* out);

// The same, turned as the orientation of its Exif data says.
absl::Status DecodeUpright(absl::Span<const std::byte> bytes, uint32_t channels,
                           OwnedTensor* out);

}  // namespace paramd

#endif  // PARAMD_INPUT_DECODE_IMAGE_H_
