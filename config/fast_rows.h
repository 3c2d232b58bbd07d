#ifndef PARAMD_CONFIG_FAST_ROWS_H_
#define PARAMD_CONFIG_FAST_ROWS_H_

#include <cstddef>

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Rows of a keyed variable of which not all lie in memory (memory_rows). In
// each of its blocks the first rows are fast, the others lie on a disk.

// Of each block; 0: all.
size_t FastRowsOf(const v1::Variable& variable);

// Rows of a block that have no key, where so many are fast.
size_t SpareRowsFor(size_t fast_rows);
size_t SpareRowsOf(const v1::Variable& variable);

}  // namespace paramd

#endif  // PARAMD_CONFIG_FAST_ROWS_H_
