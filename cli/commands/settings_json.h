#ifndef PARAMD_CLI_COMMANDS_SETTINGS_JSON_H_
#define PARAMD_CLI_COMMANDS_SETTINGS_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// {"key": settings}, as a job file has them: what is the default is left out,
// and what fits into a line stands in one. Ends with a line break.
std::string SettingsJson(absl::string_view key,
                         const google::protobuf::Message& settings);

// A job file of that job, in the same way. What is secret is not in it.
std::string JobJson(const v1::JobConfig& job);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_SETTINGS_JSON_H_
