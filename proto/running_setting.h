#ifndef PARAMD_PROTO_RUNNING_SETTING_H_
#define PARAMD_PROTO_RUNNING_SETTING_H_

#include <string>

#include "absl/strings/string_view.h"

#include "proto/paramd/v1/configuration.pb.h"

// Settings that operators have changed while the job runs, as the configuration
// has them.

namespace paramd {

// The newest value of a setting; empty: nobody has changed it.
std::string RunningSetting(const v1::Configuration& configuration,
                           absl::string_view key);

// Sets it, in place of what was set before.
void SetRunningSetting(const v1::SettingChange& change,
                       v1::Configuration* configuration);

}  // namespace paramd

#endif  // PARAMD_PROTO_RUNNING_SETTING_H_
