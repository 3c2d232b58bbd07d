#include "net/heard_setting.h"

#include "base/log.h"
#include "base/log_level.h"
#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

IoResult HearSetting(const google::protobuf::Message& change) {
  const auto& setting = static_cast<const v1::SettingChange&>(change);
  LogLevel level = LogLevel::kInfo;
  if (setting.key() == "log_level" && ParseLogLevel(setting.value(), &level)) {
    SetLogLevel(level);
  }
  return {};
}

}  // namespace paramd
