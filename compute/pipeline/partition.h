#ifndef PARAMD_COMPUTE_PIPELINE_PARTITION_H_
#define PARAMD_COMPUTE_PIPELINE_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace paramd {

// What one layer costs for one micro-batch, measured.
struct LayerTimes {
  std::string name;
  double forward_s = 0;
  double backward_s = 0;
  double variables_s = 0;  // Of that: for the gradients of its variables.
  // Kept from forward to backward, the output included.
  uint64_t kept_bytes = 0;
  // Kept besides while the gradients of its variables are put off.
  uint64_t deferred_bytes = 0;
  // Of its variables, their gradients and the slots that are beside them.
  uint64_t variable_bytes = 0;
  // Of its output, which the next layer gets.
  uint64_t output_bytes = 0;
  // Seconds for its output to reach another device, and the same of the
  // gradient back: what a cut behind it costs.
  double border_s = 0;
};

struct PartitionOptions {
  uint32_t stages = 1;
  // Of each device; 0: enough.
  uint64_t memory_bytes = 0;
  // How many micro-batches stage s keeps at once, and how many versions of its
  // variables. Null: one.
  std::function<uint64_t(uint32_t stage)> live;
  std::function<uint64_t(uint32_t stage)> versions;
  // Of how many micro-batches it puts gradients off. Null: of none.
  std::function<uint64_t(uint32_t stage)> deferred;
};

// What the layers [begin, end) need as a stage.
uint64_t StageBytes(absl::Span<const LayerTimes> layers, size_t begin,
                    size_t end, uint32_t stage,
                    const PartitionOptions& options);

// A model cut into stages of consecutive layers.
struct Partition {
  // Stage s has the layers from begins[s] to begins[s + 1], the last one's end
  // being the number of layers.
  std::vector<size_t> begins;
  // Of the slowest stage, for one micro-batch forward and backward.
  double slowest_s = 0;
};

// The cut whose slowest stage is fastest, among those whose stages fit their
// devices: exact, by dynamic programming over prefixes of layers and stages,
// O(layers^2 * stages) (PipeDream, SOSP 2019, section 3.1, without replicas).
// INVALID_ARGUMENT if there are more stages than layers; RESOURCE_EXHAUSTED,
// naming the layer that needs most or the stages that are too few, if no cut
// fits.
absl::StatusOr<Partition> PartitionLayers(absl::Span<const LayerTimes> layers,
                                          const PartitionOptions& options);

// As many layers for each stage as there are for another, or one more: what a
// cut without measuring is.
Partition EqualCounts(absl::Span<const LayerTimes> layers, uint32_t stages);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_PARTITION_H_
