#ifndef PARAMD_CONFIG_SETTING_H_
#define PARAMD_CONFIG_SETTING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// What config.proto says about settings, read from the descriptors. A path
// names a setting from the top: "optimizer.learning_rate".

const v1::SettingOptions& SettingOf(const google::protobuf::FieldDescriptor& f);

// Whether exactly one of several messages is meant by this field, as in a
// layer's kind.
bool IsAlternative(const google::protobuf::FieldDescriptor& field);

// "cosine" for COSINE, "info" for LOG_LEVEL_INFO. Empty for the zero value,
// which nobody can write.
std::string EnumName(const google::protobuf::EnumValueDescriptor& value);
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& e);

// The keys that may stand in a message.
std::vector<std::string> KeysOf(const google::protobuf::Descriptor& message);

// The oneof of a message that holds nothing else, or null: the message may be
// written as the name of one of its fields.
const google::protobuf::OneofDescriptor* OnlyOneof(
    const google::protobuf::Descriptor& message);

// The field as whose value alone the message may be written, or null.
const google::protobuf::FieldDescriptor* ShorthandField(
    const google::protobuf::Descriptor& message);

// "0.5", "1000000".
std::string FormatNumber(double number);

// "at least 1, at most 100"; empty if every value of the type is admitted.
std::string BoundsOf(const google::protobuf::FieldDescriptor& field);

// Whether a setting that is a text may be a whole number, as in "staleness": 8:
// its example is one.
bool TakesNumber(const google::protobuf::FieldDescriptor& field);

// Every path of `message` that holds no list index, messages and lists as a
// whole included, in the order of config.proto.
std::vector<std::string> SettingPaths(
    const google::protobuf::Descriptor& message);

// "PARAMD_OPTIMIZER_LEARNING_RATE" for "optimizer.learning_rate".
std::string EnvironmentName(absl::string_view path);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTING_H_
