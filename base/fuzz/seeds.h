#ifndef PARAMD_BASE_FUZZ_SEEDS_H_
#define PARAMD_BASE_FUZZ_SEEDS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace paramd::fuzz {

// Writes inputs, each a name and its bytes, as `corpus/TARGET/NAME` below
// `directory`, replacing those of the same names. CHECKs that it could.
void WriteSeeds(const std::string& directory, absl::string_view target,
                const std::vector<std::pair<std::string, std::string>>& seeds);

}  // namespace paramd::fuzz

#endif  // PARAMD_BASE_FUZZ_SEEDS_H_
