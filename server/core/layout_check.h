#ifndef PARAMD_SERVER_CORE_LAYOUT_CHECK_H_
#define PARAMD_SERVER_CORE_LAYOUT_CHECK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/types.pb.h"
#include "server/core/slice.h"
#include "tensor/shape.h"

namespace paramd {

// The shape of a variable that a server can hold. Else INVALID with its name
// and what is wrong: a name that is too long, a dtype, initializer or rule for
// keys that is unknown here, a shape that overflows, or that a sparse or keyed
// variable can't have.
absl::StatusOr<RowShape> CheckVariable(const v1::Variable& variable);

// INVALID unless the slice is of whole buckets, if it is keyed: its blocks are
// the same for any number of servers.
absl::Status CheckBuckets(const Slice& slice);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_LAYOUT_CHECK_H_
