#ifndef PARAMD_CHECKPOINT_KEYED_ROWS_READER_H_
#define PARAMD_CHECKPOINT_KEYED_ROWS_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/restore_reader.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// The rows of these mixed keys (tensor/keyed_rows.h), which ascend, in the
// checkpoint at `path`, one after the other; of a key that it does not have
// what the job of this seed begins it with. Reads the buckets that the keys
// belong to, some at a time, and keeps the rows alone. They count once
// `reader`, which reads alone, has read its last slices. The errors of
// RestoreReader.
absl::StatusOr<std::vector<float>> ReadKeyedRows(
    RestoreReader* reader, const std::string& path,
    const v1::Variable& variable, uint64_t seed,
    absl::Span<const uint64_t> keys);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_KEYED_ROWS_READER_H_
