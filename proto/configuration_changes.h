#ifndef PARAMD_PROTO_CONFIGURATION_CHANGES_H_
#define PARAMD_PROTO_CONFIGURATION_CHANGES_H_

#include "absl/status/statusor.h"

#include "proto/paramd/v1/configuration.pb.h"

// A configuration that is told as what has changed (Configuration.changes_since
// says how), for those that are told. Who tells it is the coordinator's
// LiveConfiguration.

namespace paramd {

// Whether the field of this number may stand in Configuration.changed: there is
// one, and its changes are not said in a way of their own.
bool IsWhollyTold(int field);

// The whole configuration: `told` itself, or what becomes of `known` by the
// changes that it says. INVALID if `known` is not a configuration between the
// one since which they are told and the one that they make, or if they make no
// sense: then the whole is needed.
absl::StatusOr<v1::Configuration> Expand(const v1::Configuration& known,
                                         const v1::Configuration& told);

// Whether `told`, which has changes, says nothing that is not so in `known`,
// which is of the same version.
bool AgreesWith(const v1::Configuration& known, const v1::Configuration& told);

}  // namespace paramd

#endif  // PARAMD_PROTO_CONFIGURATION_CHANGES_H_
