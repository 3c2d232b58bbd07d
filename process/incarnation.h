#ifndef PARAMD_PROCESS_INCARNATION_H_
#define PARAMD_PROCESS_INCARNATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Which process of a task one is: a random number, never 0, by which no two
// processes are ever mixed up.
uint64_t DrawIncarnation();

// 16 hexadecimal digits, as `paramd status` shows it.
std::string IncarnationText(uint64_t incarnation);

// Reads that. InvalidArgument that begins with `what` if it is no number of at
// most 16 hexadecimal digits, or 0.
absl::StatusOr<uint64_t> ParseIncarnation(absl::string_view what,
                                          absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_PROCESS_INCARNATION_H_
