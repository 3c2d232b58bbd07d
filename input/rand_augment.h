#ifndef PARAMD_INPUT_RAND_AUGMENT_H_
#define PARAMD_INPUT_RAND_AUGMENT_H_

#include <cstdint>

#include "base/random.h"
#include "input/example.h"

namespace paramd {

// RandAugment (Cubuk et al., "RandAugment: practical automated data
// augmentation with a reduced search space", 2019): `operations` of its 14,
// drawn from `random` with replacement, each of strength `strength` of 30.
// `out` becomes the changed image. Where pixels come from outside of the image
// they are 0.
// REQUIRES: `in` is an image [height, width] or [height, width, channels] of
// uint8, or of float32 in [0, 1]; not `out`.
void RandAugment(const OwnedTensor& in, uint32_t operations, double strength,
                 RandomStream random, OwnedTensor* out);

// The image turned around its middle, counter-clockwise, bilinear; 0 where it
// has no pixel. REQUIRES: as above, but for the bounds of float32.
void RotateImage(const OwnedTensor& in, double degrees, OwnedTensor* out);

}  // namespace paramd

#endif  // PARAMD_INPUT_RAND_AUGMENT_H_
