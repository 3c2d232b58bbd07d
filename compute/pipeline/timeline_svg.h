#ifndef PARAMD_COMPUTE_PIPELINE_TIMELINE_SVG_H_
#define PARAMD_COMPUTE_PIPELINE_TIMELINE_SVG_H_

#include <string>

#include "compute/pipeline/timeline.h"

namespace paramd {

// A drawing of a timeline, as an SVG file: a row for each device with what it
// computes and of which micro-batch, its share of waiting, and the time below,
// in milliseconds. The drawing's title has for how much of the time each stage
// computes. REQUIRES: something takes time.
std::string TimelineSvg(const Timeline& timeline);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_TIMELINE_SVG_H_
