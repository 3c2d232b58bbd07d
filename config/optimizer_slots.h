#ifndef PARAMD_CONFIG_OPTIMIZER_SLOTS_H_
#define PARAMD_CONFIG_OPTIMIZER_SLOTS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// Names of what the optimizer keeps beside a value, in the order in which they
// travel and are saved: none, "momentum", "accumulator", or "momentum" and
// "variance".
absl::Span<const absl::string_view> SlotsOf(const v1::OptimizerConfig& config);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OPTIMIZER_SLOTS_H_
