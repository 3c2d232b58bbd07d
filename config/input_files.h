#ifndef PARAMD_CONFIG_INPUT_FILES_H_
#define PARAMD_CONFIG_INPUT_FILES_H_

#include "google/protobuf/message.h"

#include "config/mistakes.h"
#include "config/setting_reader.h"

namespace paramd {

// Adds a mistake for every directory and file that the settings of `message`
// name (by their option `reads`) and that can't be read by this process. Says
// what lies there instead where a file is only compressed or not. Settings
// that are known to be wrong are left out.
void CheckInputFiles(const google::protobuf::Message& message,
                     const Origins& origins, Mistakes* mistakes);

}  // namespace paramd

#endif  // PARAMD_CONFIG_INPUT_FILES_H_
