#ifndef PARAMD_PROTO_MESSAGE_JSON_H_
#define PARAMD_PROTO_MESSAGE_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace paramd {

// The message as JSON for people and programs, in lines, with the names of the
// .proto file and every field that has a value or is a number, and ASCII alone.
// Integers of 64 bits are numbers, where Protobuf's own JSON has strings; both
// are read back. Of `fixed64`, which names something and counts nothing, it
// stays a string: it has more digits than many programs keep. What is not a
// number (NaN, infinity) is a string, as there.
absl::StatusOr<std::string> MessageJson(
    const google::protobuf::Message& message);

}  // namespace paramd

#endif  // PARAMD_PROTO_MESSAGE_JSON_H_
