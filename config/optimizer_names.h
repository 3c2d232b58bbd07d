#ifndef PARAMD_CONFIG_OPTIMIZER_NAMES_H_
#define PARAMD_CONFIG_OPTIMIZER_NAMES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/optimizer.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

using VariablePointers = absl::Span<const v1::Variable* const>;

// The last dimension; of a single number 1.
uint64_t ChannelsOf(const v1::Variable& variable);

// Of optimizer.pruning, the number of the first entry that names this variable.
// Nothing: none does, or it is not trained.
absl::optional<int> PruningOf(const v1::OptimizerConfig& config,
                              const v1::Variable& variable);

// Of each variable whose channels are pruned, the kernel, by its place, with
// whose channels they are pruned: itself, or of a vector the last one before it
// that the same entry of optimizer.pruning names and that has as many channels,
// as of a bias its layer's, and of a batch norm's scale the layer before it.
// Without such a kernel itself. Nothing: channels of it are not pruned.
std::vector<absl::optional<uint32_t>> ChannelLeads(
    const v1::OptimizerConfig& config, VariablePointers variables);

// INVALID_ARGUMENT, naming it and the variables that are called most like it,
// if a pattern of the optimizer's settings is the name of none of them, or
// naming the variable: a sparse one that is to be pruned, one without inputs
// and outputs of which two of four are, one whose channels are pruned without
// those of a kernel, or more channels than servers can count.
absl::Status CheckOptimizerNames(const v1::OptimizerConfig& config,
                                 VariablePointers variables);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OPTIMIZER_NAMES_H_
