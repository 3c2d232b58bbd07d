#ifndef PARAMD_COMPUTE_HLO_HLO_WINDOWS_H_
#define PARAMD_COMPUTE_HLO_HLO_WINDOWS_H_

#include "compute/device/shapes.h"
#include "compute/hlo/hlo_graph.h"

// What slides over images [batch, height, width, channels], as the primitives
// of compute/device do.
namespace paramd::hlo {

// `kernel`: [height, width, channels of a group, outputs].
HloValue Convolve(const Convolution& shape, HloValue input, HloValue kernel);
// Of equal values of a window the first counts.
HloValue MaxPool(const Window& window, HloValue input);
// The same over all places: [batch, places, values] to [batch, values].
HloValue MaxPlace(HloValue input);
// Over what is inside of the image.
HloValue AveragePool(const Window& window, HloValue input);

}  // namespace paramd::hlo

#endif  // PARAMD_COMPUTE_HLO_HLO_WINDOWS_H_
