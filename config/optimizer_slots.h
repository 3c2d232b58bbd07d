#ifndef PARAMD_CONFIG_OPTIMIZER_SLOTS_H_
#define PARAMD_CONFIG_OPTIMIZER_SLOTS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/optimizer.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Names of what the optimizer keeps beside a value, in the order in which they
// travel and are saved: of Adam "momentum" and "variance".
absl::Span<const absl::string_view> SlotsOf(const v1::OptimizerConfig& config);
// The same for a variable: none if it is untrained.
absl::Span<const absl::string_view> SlotsOf(const v1::OptimizerConfig& config,
                                            const v1::Variable& variable);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OPTIMIZER_SLOTS_H_
