#ifndef PARAMD_COORDINATOR_SUMMARY_WRITTEN_SCALARS_H_
#define PARAMD_COORDINATOR_SUMMARY_WRITTEN_SCALARS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paramd {

// The scalar of each tag that the event files below `directory`, read in the
// order of `names`, have for `step`: the newest one of that step or an earlier
// one which no restart has made void. A file that can't be read or is larger
// than 64 MiB, and what stands after a record that is not whole, is left out.
std::map<std::string, float> WrittenScalarsAt(
    uint64_t step, absl::string_view directory,
    const std::vector<std::string>& names);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_SUMMARY_WRITTEN_SCALARS_H_
