#ifndef PARAMD_CONFIG_SETTING_VALUE_H_
#define PARAMD_CONFIG_SETTING_VALUE_H_

#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace paramd {

// One value of a message of settings.
struct SettingValue {
  std::string path;  // "model.layers[1].dense.units"
  std::string json;  // "512"; "{}" for a message that says all by being there
  bool is_local = false;  // each process may have its own
};

// Every value that `message` has, in the order of its descriptor, all the way
// down. Equal messages give equal values: numbers are written in as few digits
// as tell them apart.
std::vector<SettingValue> ValuesOf(const google::protobuf::Message& message);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTING_VALUE_H_
