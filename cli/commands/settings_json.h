#ifndef PARAMD_CLI_COMMANDS_SETTINGS_JSON_H_
#define PARAMD_CLI_COMMANDS_SETTINGS_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace paramd {

// {"key": settings}, as a job file has them: what is the default is left out,
// and what fits into a line stands in one. Ends with a line break.
std::string SettingsJson(absl::string_view key,
                         const google::protobuf::Message& settings);
// The same without a key around them: a whole job file.
std::string SettingsJson(const google::protobuf::Message& settings);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_SETTINGS_JSON_H_
