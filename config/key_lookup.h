#ifndef PARAMD_CONFIG_KEY_LOOKUP_H_
#define PARAMD_CONFIG_KEY_LOOKUP_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace paramd {

// The field of this key in `*message`. Where it is one of a spread field
// (setting.proto), `*message` becomes what that holds. Null, with `*message` as
// it was, if no such key may stand there.
const google::protobuf::FieldDescriptor* FindKey(
    absl::string_view key, google::protobuf::Message** message);

// What is wrong with a key that an object of this type does not have, as a
// sentence: it may be one that all such objects share, one of an object inside,
// or a misspelt one.
std::string UnknownKey(absl::string_view key,
                       const google::protobuf::Descriptor& type);

}  // namespace paramd

#endif  // PARAMD_CONFIG_KEY_LOOKUP_H_
