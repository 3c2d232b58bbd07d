#ifndef PARAMD_CONFIG_CONSISTENCY_H_
#define PARAMD_CONFIG_CONSISTENCY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// What the setting `staleness` says: "async", "sync", or a number of pushes.
// kInvalidArgument, with what may be written, for anything else.
absl::StatusOr<v1::Consistency> ParseStaleness(absl::string_view staleness);

// The same as text, for the setting and for people.
std::string StalenessText(const v1::Consistency& consistency);

}  // namespace paramd

#endif  // PARAMD_CONFIG_CONSISTENCY_H_
