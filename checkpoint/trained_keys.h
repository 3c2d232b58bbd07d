#ifndef PARAMD_CHECKPOINT_TRAINED_KEYS_H_
#define PARAMD_CHECKPOINT_TRAINED_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "checkpoint/trained_tensors.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/buffer.h"
#include "tensor/shape.h"

namespace paramd {

// Rows of a keyed variable out of something trained before, by their keys: into
// a table of any number of rows, as long as those with a key have room in it.
//
// Rows lie by buckets, which ascend with the mixed key, there and here. So the
// rows of one bucket here come from a few buckets there, one after the other,
// and nothing else is read for them.

// What the rows of a variable come from.
struct TrainedTable {
  std::string tensor;  // Find says that it is keyed.
  uint64_t rows;
  uint64_t width;
};

// How many rows there have a key. INVALID_ARGUMENT with a sentence that names
// the numbers if not all of them have room in the variable, or one lies in a
// bucket that is not its key's; what ReadKeys fails with. Reads keys and uses,
// 16 bytes a row there, 8 MiB at a time.
absl::StatusOr<uint64_t> CheckKeysFit(const TrainedTable& table,
                                      const v1::Variable& variable,
                                      TrainedTensors* tensors);

// Appends `rows` of a variable that has `variable_rows` in all: their values,
// then the key of each, then 1 for each that has one, else 0. In a bucket the
// row that was unused for longest there comes first, and those without a key
// come last. INVALID_ARGUMENT if `rows` are not whole buckets, a key stands
// twice, or a number is not finite; what ReadKeys and ReadFinite fail with.
//
// Memory: the rows, twice a bucket, and 4 MiB.
absl::Status ReadRowsByKey(const TrainedTable& table, uint64_t variable_rows,
                           RowRange rows, TrainedTensors* tensors,
                           BufferChain* out);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_TRAINED_KEYS_H_
