#ifndef PARAMD_CHECKPOINT_CHECKPOINT_WEIGHTS_H_
#define PARAMD_CHECKPOINT_CHECKPOINT_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// The values of a model's variables in the checkpoint at `path`, row-major, in
// the order of the variables; of keyed ones the rows of `keys`, which has those
// of each of them in order, as ReadKeyedRows gives them, whatever the capacity
// there is. Every file that they
// come from has the size and checksum of the manifest, for which all of it is
// read once. The errors of RestoreReader: the checkpoint lacks a variable, has
// it in another shape, or is damaged.
absl::StatusOr<std::vector<std::vector<float>>> ReadWeights(
    const std::string& path, const std::vector<v1::Variable>& variables,
    uint64_t seed, absl::Span<const std::vector<uint64_t>> keys);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_CHECKPOINT_WEIGHTS_H_
