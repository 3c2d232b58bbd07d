#include "proto/message_json.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

void TurnMembers(const Descriptor& type, Json* object);

// The value of a field, or one of several.
void Turn(const FieldDescriptor& field, Json* value) {
  if (field.type() == FieldDescriptor::TYPE_FIXED64) return;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return TurnMembers(*field.message_type(), value);
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t number;
      if (value->is_string() &&
          absl::SimpleAtoi(value->get_ref<const std::string&>(), &number)) {
        *value = number;
      }
      return;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t number;
      if (value->is_string() &&
          absl::SimpleAtoi(value->get_ref<const std::string&>(), &number)) {
        *value = number;
      }
      return;
    }
    default:
      return;
  }
}

void TurnMembers(const Descriptor& type, Json* object) {
  if (!object->is_object()) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto member = object->find(field.name());
    if (member == object->end()) continue;
    if (field.is_map()) {
      // By key; what an entry has is its second field.
      for (Json& value : *member) Turn(*field.message_type()->field(1), &value);
    } else if (field.is_repeated()) {
      for (Json& value : *member) Turn(field, &value);
    } else {
      Turn(field, &*member);
    }
  }
}

}  // namespace

absl::StatusOr<std::string> MessageJson(
    const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto printed =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!printed.ok()) return absl::InternalError(printed.ToString());
  Json json = Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InternalError("Protobuf's JSON can't be read");
  }
  TurnMembers(*message.GetDescriptor(), &json);
  return absl::StrCat(
      json.dump(1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
      "\n");
}

}  // namespace paramd
