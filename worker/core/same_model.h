#ifndef PARAMD_WORKER_CORE_SAME_MODEL_H_
#define PARAMD_WORKER_CORE_SAME_MODEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Whether worker `worker` has the model whose variables the chief had laid out:
// the same names, shapes, kinds and types to compute with, in the same order.
// INVALID_ARGUMENT, naming the first variable that differs and how.
absl::Status CheckSameModel(uint32_t worker,
                            absl::Span<const v1::Variable> ours,
                            const v1::Layout& layout);

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_SAME_MODEL_H_
