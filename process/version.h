#ifndef PARAMD_PROCESS_VERSION_H_
#define PARAMD_PROCESS_VERSION_H_

#include <string>

namespace paramd {

// "0.1"
std::string ParamdVersion();

// The commit that this was built from, as `--embed_label` told the build;
// "unknown" if it did not.
std::string ParamdCommit();

// What the linker wrote into this program, or into the library that this is
// part of, to tell it from others: hexadecimal digits; empty if it wrote
// nothing.
std::string ParamdBuildId();

// All three: two programs of one build compute the same bits.
std::string ParamdBuild();

}  // namespace paramd

#endif  // PARAMD_PROCESS_VERSION_H_
