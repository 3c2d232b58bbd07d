#ifndef PARAMD_WORKER_INPUT_DECODE_IMAGE_H_
#define PARAMD_WORKER_INPUT_DECODE_IMAGE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "worker/input/example.h"

namespace paramd {

// The most pixels that an image may have.
constexpr uint64_t kMaxPixels = uint64_t{1} << 28;

// Overwrites `out` with the uint8 image [height, width, channels] of a PNG or
// JPEG file (told by its first bytes); grey becomes colour and colour grey as
// needed, 16 bits become 8, transparency is dropped. DATA_LOSS, in the
// library's words, if it is truncated or damaged, and if it is neither format;
// RESOURCE_EXHAUSTED beyond kMaxPixels.
// REQUIRES: channels is 1 or 3.
absl::Status DecodeImage(absl::Span<const std::byte> bytes, uint32_t channels,
                         OwnedTensor* out);

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_DECODE_IMAGE_H_
