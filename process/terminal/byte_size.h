#ifndef PARAMD_PROCESS_TERMINAL_BYTE_SIZE_H_
#define PARAMD_PROCESS_TERMINAL_BYTE_SIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paramd {

// "5GB", "500 MiB", "1.5TB", "4096": a number and B, kB, MB, GB, TB (powers of
// 1000) or KiB, MiB, GiB, TiB (powers of 1024), in any case. INVALID_ARGUMENT
// naming the text unless that is at least one byte and fits 63 bits.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_BYTE_SIZE_H_
