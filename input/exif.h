#ifndef PARAMD_INPUT_EXIF_H_
#define PARAMD_INPUT_EXIF_H_

#include <cstddef>

#include "absl/types/span.h"

#include "input/example.h"

namespace paramd {

// The orientation that the Exif data of a JPEG or PNG file give, 1 to 8; 1, as
// it is stored, if they give none or are damaged.
// https://www.cipa.jp/std/documents/e/DC-008-2012_E.pdf, 4.6.4 A, Orientation.
int ExifOrientation(absl::Span<const std::byte> file);

// Turns and mirrors a uint8 image [height, width, channels] that is stored in
// this orientation so that it is as it is to be seen.
void Orient(int orientation, const OwnedTensor& in, OwnedTensor* out);

}  // namespace paramd

#endif  // PARAMD_INPUT_EXIF_H_
