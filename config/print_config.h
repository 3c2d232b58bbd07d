#ifndef PARAMD_CONFIG_PRINT_CONFIG_H_
#define PARAMD_CONFIG_PRINT_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "config/cluster_spec.h"
#include "config/job_config.h"

namespace paramd {

// The effective configuration for people ("text") or programs ("json"): every
// setting with its value and where that came from, and how this process read
// the cluster. Ends with a line break. docs/configuration.md documents the
// keys of the JSON; they only ever grow. InvalidArgument for another format.
absl::StatusOr<std::string> PrintConfig(const LoadedJob& job,
                                        const ClusterSpec& cluster,
                                        absl::string_view format);

}  // namespace paramd

#endif  // PARAMD_CONFIG_PRINT_CONFIG_H_
