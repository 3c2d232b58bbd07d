#ifndef PARAMD_CONFIG_SETTING_VALUE_H_
#define PARAMD_CONFIG_SETTING_VALUE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace paramd {

// What stands for a value that is printed nowhere, if it is not the default.
inline constexpr absl::string_view kSecretJson = "\"(not printed)\"";

// One value of a message of settings.
struct SettingValue {
  std::string path;  // "model.layers[1].dense.units"
  // "512"; "[1,2]" for a list of single values; "{}" for a message that says
  // all by being there.
  std::string json;
  bool is_local = false;    // each process may have its own
  bool may_change = false;  // a run may go on with another one
  bool is_default = false;  // what it is where nobody says it
  bool is_secret = false;   // `json` is not it, but kSecretJson
  // The innermost list element, alternative or message that may be absent that
  // it is part of, as in "model.layers[1].dense"; empty for what every job has.
  std::string part_of;
};

// Every value that `message` has, in the order of its descriptor, all the way
// down. Equal messages give equal values: numbers are written in as few digits
// as tell them apart.
std::vector<SettingValue> ValuesOf(const google::protobuf::Message& message);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTING_VALUE_H_
