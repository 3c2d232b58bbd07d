#ifndef PARAMD_WORKER_HLO_HLO_WINDOWS_H_
#define PARAMD_WORKER_HLO_HLO_WINDOWS_H_

#include "worker/device/shapes.h"
#include "worker/hlo/hlo_graph.h"

// What slides over images [batch, height, width, channels], as the primitives
// of worker/device do.
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

#endif  // PARAMD_WORKER_HLO_HLO_WINDOWS_H_
