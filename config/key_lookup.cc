#include "config/key_lookup.h"

#include "absl/strings/str_cat.h"

#include "config/nearest_name.h"
#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

}  // namespace

const FieldDescriptor* FindKey(absl::string_view key, Message** message) {
  const Descriptor& type = *(*message)->GetDescriptor();
  for (const FieldDescriptor* field : FieldsAt(type)) {
    if (field->name() != key) continue;
    if (field->containing_type() != &type) {
      *message = (*message)->GetReflection()->MutableMessage(*message,
                                                             SpreadField(type));
    }
    return field;
  }
  return nullptr;
}

std::string UnknownKey(absl::string_view key, const Descriptor& type) {
  const std::string name(key);
  const FieldDescriptor* const spread = SpreadField(type);
  if (spread != nullptr &&
      spread->message_type()->FindFieldByName(name) != nullptr) {
    return "can't differ between stages; give it once, beside them";
  }
  const FieldDescriptor* holder = nullptr;
  int holders = 0;
  for (const FieldDescriptor* field : FieldsAt(type)) {
    if (field->message_type() == nullptr || field->is_repeated() ||
        field->message_type()->FindFieldByName(name) == nullptr) {
      continue;
    }
    holder = field;
    ++holders;
  }
  return holders == 1
             ? absl::StrCat("unknown key; did you mean '", holder->name(), ".",
                            key, "'?")
             : absl::StrCat("unknown key", NearestNameHint(key, KeysOf(type)));
}

}  // namespace paramd
