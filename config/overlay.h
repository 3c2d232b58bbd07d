#ifndef PARAMD_CONFIG_OVERLAY_H_
#define PARAMD_CONFIG_OVERLAY_H_

#include <string>

#include "google/protobuf/message.h"

#include "config/setting_reader.h"

namespace paramd {

// Takes over into `to`, which is the top, what is given in `from`, a message of
// the same type that was read at `path`: key by key where both have an object,
// and as a whole what is a value, a list, or one of several that exclude each
// other. What is taken over has come from where it has in `from`.
//
//   to   {"optimizer": {"adam": {}, "learning_rate": 0.1}}
//   from {"optimizer": {"learning_rate": 0.01}}
//   then {"optimizer": {"adam": {}, "learning_rate": 0.01}}
void Overlay(const std::string& path, const google::protobuf::Message& from,
             Origins* origins, google::protobuf::Message* to);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OVERLAY_H_
