#ifndef PARAMD_CONFIG_IDLE_SETTINGS_H_
#define PARAMD_CONFIG_IDLE_SETTINGS_H_

#include <string>

#include "config/setting_reader.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// A sentence that names the settings that somebody gave and that do nothing
// beside the others, and says what they are of; empty if there are none. They
// are no mistake: a flag may have taken away what they go with.
std::string IdleSettings(const v1::JobConfig& config,
                         const SettingReader& reader);

}  // namespace paramd

#endif  // PARAMD_CONFIG_IDLE_SETTINGS_H_
