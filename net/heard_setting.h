#ifndef PARAMD_NET_HEARD_SETTING_H_
#define PARAMD_NET_HEARD_SETTING_H_

#include "google/protobuf/message.h"

#include "tensor/message.h"

namespace paramd {

// The work of a core that has heard of a setting of its process, a
// v1::SettingChange: the log's level.
IoResult HearSetting(const google::protobuf::Message& change);

}  // namespace paramd

#endif  // PARAMD_NET_HEARD_SETTING_H_
