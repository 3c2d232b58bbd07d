#ifndef PARAMD_CONFIG_SETTING_H_
#define PARAMD_CONFIG_SETTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/setting.pb.h"

namespace paramd {

// What the field options say about settings, read from the descriptors. A path
// names a setting from the top: "optimizer.learning_rate".

const v1::SettingOptions& SettingOf(const google::protobuf::FieldDescriptor& f);

// The names of the settings in a message, and in those in it, that are printed
// nowhere.
std::vector<std::string> SecretNames(
    const google::protobuf::Descriptor& message);

// Sets the numbers and flags of `message` that are not set to the defaults of
// their settings, where these have some. Texts, enums, lists and messages stay
// as they are.
void SetDefaultNumbers(google::protobuf::Message* message);
template <typename Settings>
Settings WithDefaultNumbers(Settings settings) {
  SetDefaultNumbers(&settings);
  return settings;
}

// Whether exactly one of several messages is meant by this field, as in a
// layer's kind.
bool IsAlternative(const google::protobuf::FieldDescriptor& field);

// "cosine" for COSINE, "info" for LOG_LEVEL_INFO. Empty for the zero value,
// which nobody can write.
std::string EnumName(const google::protobuf::EnumValueDescriptor& value);
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& e);

// The field whose own keys stand in `message` in its place, or null.
const google::protobuf::FieldDescriptor* SpreadField(
    const google::protobuf::Descriptor& message);

// The fields whose keys may stand in a message, those of a spread one among
// them.
std::vector<const google::protobuf::FieldDescriptor*> FieldsAt(
    const google::protobuf::Descriptor& message);

// The keys that may stand in a message.
std::vector<std::string> KeysOf(const google::protobuf::Descriptor& message);

// The oneof of a message that has one, of messages, and beside it requires
// nothing; or null. Such a message may be written as the name of one of them.
const google::protobuf::OneofDescriptor* OnlyOneof(
    const google::protobuf::Descriptor& message);

// The field as whose value alone the message may be written, or null.
const google::protobuf::FieldDescriptor* ShorthandField(
    const google::protobuf::Descriptor& message);

// "0.5", "1000000".
std::string FormatNumber(double number);

// "at least 1, at most 100"; of a list "each at least 1, at most 4 elements".
// Empty if every value of the type is admitted.
std::string BoundsOf(const google::protobuf::FieldDescriptor& field);

// What `number` breaks of the bounds of a field, or of each element of a list:
// "at least 1". Empty: nothing.
std::string BrokenBound(const google::protobuf::FieldDescriptor& field,
                        double number);
// The same of the length of a list.
std::string BrokenLength(const google::protobuf::FieldDescriptor& field,
                         uint64_t elements);

// Whether a setting that is a text may be a whole number, as in "staleness": 8:
// its example is one.
bool TakesNumber(const google::protobuf::FieldDescriptor& field);

// Every path of `message` that holds no list index, messages and lists as a
// whole included, in the order of its fields.
std::vector<std::string> SettingPaths(
    const google::protobuf::Descriptor& message);

// "PARAMD_OPTIMIZER_LEARNING_RATE" for "optimizer.learning_rate".
std::string EnvironmentName(absl::string_view path);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTING_H_
