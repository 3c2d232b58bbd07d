#ifndef PARAMD_CLI_PROCESS_VERSION_H_
#define PARAMD_CLI_PROCESS_VERSION_H_

#include <string>

namespace paramd {

// "0.1"
std::string ParamdVersion();

// The commit that this was built from, as `--embed_label` told the build;
// "unknown" if it did not.
std::string ParamdCommit();

}  // namespace paramd

#endif  // PARAMD_CLI_PROCESS_VERSION_H_
