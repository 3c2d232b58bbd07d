#include "proto/running_setting.h"

namespace paramd {

std::string RunningSetting(const v1::Configuration& configuration,
                           absl::string_view key) {
  for (const v1::SettingChange& change : configuration.settings()) {
    if (change.key() == key) return change.value();
  }
  return "";
}

void SetRunningSetting(const v1::SettingChange& change,
                       v1::Configuration* configuration) {
  for (v1::SettingChange& old : *configuration->mutable_settings()) {
    if (old.key() != change.key()) continue;
    old = change;
    return;
  }
  *configuration->add_settings() = change;
}

}  // namespace paramd
