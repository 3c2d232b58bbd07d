#ifndef PARAMD_CHECKPOINT_WARM_START_H_
#define PARAMD_CHECKPOINT_WARM_START_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/trained_tensors.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// Initial values out of something that was trained before. `variables` of the
// config says which variables take them, `from` what they are called there
// (Renamed), `transpose` (MatchesAny) which matrices lie there with rows and
// columns exchanged; all others, and of those that `allow_missing` names the
// ones that are not there in their shape, keep their ordinary initial values.
// Of a keyed variable rows are taken by key, whatever its capacity was there
// (trained_keys.h).

// What one file with everything is called, as Hugging Face has it.
inline constexpr char kTrainedFile[] = "model.safetensors";

// The config with the path of what it stands for, from the root on:
//   - of a directory of checkpoints, or a run's with one below it, the newest
//     checkpoint that verifies; those passed over are logged,
//   - of a directory with model.safetensors alone, that file,
//   - else its own.
// INVALID_ARGUMENT, one sentence with all that does not fit, if `variables`
// names none of `all`, or a tensor is missing, has another shape, a dtype
// that is not read, or rows by key for which the variable has no room; the same
// if there is nothing of that kind. DATA_LOSS if
// what is there is damaged.
absl::StatusOr<v1::WarmStartConfig> FindWarmStart(
    const v1::WarmStartConfig& config, absl::Span<const v1::Variable> all);

// Whether what lies at config.path(), a path that FindWarmStart gives, is what
// it takes; errors as above. It is not verified once more.
absl::Status CheckWarmStart(const v1::WarmStartConfig& config,
                            absl::Span<const v1::Variable> all);

// The values of the wanted slices, as v1::ReadWarmStart says; nothing else is
// read. Errors as above, and those of TrainedTensors.
absl::Status ReadWarmStart(const v1::ReadWarmStart& request,
                           v1::ReadWarmStartResult* result,
                           BufferChain* payload);
// The same out of tensors that are open.
absl::Status ReadWarmStart(const v1::ReadWarmStart& request,
                           TrainedTensors* tensors,
                           v1::ReadWarmStartResult* result,
                           BufferChain* payload);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_WARM_START_H_
