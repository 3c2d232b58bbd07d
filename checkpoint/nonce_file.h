#ifndef PARAMD_CHECKPOINT_NONCE_FILE_H_
#define PARAMD_CHECKPOINT_NONCE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace paramd {

// A small file in a directory by which another process finds out whether it
// sees that directory under the same path, and not one of its own.
inline constexpr char kNonceFile[] = "nonce";

// Writes it, over what is there. An error names the file.
absl::Status WriteNonceFile(const std::string& directory, uint64_t nonce);

// Whether it is there and says this.
bool HasNonceFile(const std::string& directory, uint64_t nonce);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_NONCE_FILE_H_
