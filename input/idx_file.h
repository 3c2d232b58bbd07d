#ifndef PARAMD_INPUT_IDX_FILE_H_
#define PARAMD_INPUT_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paramd {

// The content of an IDX file of unsigned bytes, row-major. Format:
// http://yann.lecun.com/exdb/mnist (two zero bytes, type 8, number of
// dimensions, each dimension as 32 bits big-endian, then the bytes).
struct IdxFile {
  // The most bytes that a file may hold.
  static constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;
};

// Reads `path`, compressed by gzip or plain (told by its first bytes), which
// must have `dimensions` dimensions. The memory taken is bounded by what the
// file holds, not by what its header claims.
// Errors name the path, what was found and what was expected:
//   the system's code  it can't be opened or read;
//   INVALID_ARGUMENT   not IDX, not bytes, another number of dimensions, or a
//                      dimension of 0;
//   RESOURCE_EXHAUSTED the header claims more than kMaxBytes;
//   DATA_LOSS          it is truncated, damaged, or longer than its header
//   says.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int dimensions);

}  // namespace paramd

#endif  // PARAMD_INPUT_IDX_FILE_H_
