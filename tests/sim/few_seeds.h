#ifndef PARAMD_TESTS_SIM_FEW_SEEDS_H_
#define PARAMD_TESTS_SIM_FEW_SEEDS_H_

#include <cstdlib>

namespace paramd {

// True under a sanitizer, where every instruction costs ten. A test runs few
// seeds then and expects only what holds of each: of few seeds nothing is sure
// about how often something comes.
inline bool FewSeeds() { return std::getenv("PARAMD_SANITIZER") != nullptr; }

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_FEW_SEEDS_H_
