#include "config/job_schema.h"

#include <limits>

#include "nlohmann/json.hpp"

#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;
using Json = nlohmann::ordered_json;

Json SchemaOf(const Descriptor& message);

// A bound of a whole number without a fraction.
Json Number(double number, bool is_whole) {
  return is_whole ? Json(static_cast<uint64_t>(number)) : Json(number);
}

void AddBounds(const FieldDescriptor& field, Json* schema) {
  const v1::SettingOptions& setting = SettingOf(field);
  const bool is_whole = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  if (setting.has_min()) {
    (*schema)["minimum"] = Number(setting.min(), is_whole);
  } else if (is_whole) {
    (*schema)["minimum"] = 0;
  }
  if (setting.has_max()) {
    (*schema)["maximum"] = Number(setting.max(), is_whole);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    (*schema)["maximum"] = std::numeric_limits<uint32_t>::max();
  }
  if (setting.has_above()) {
    (*schema)["exclusiveMinimum"] = Number(setting.above(), is_whole);
  }
  if (setting.has_below()) {
    (*schema)["exclusiveMaximum"] = Number(setting.below(), is_whole);
  }
}

Json SchemaOfValue(const FieldDescriptor& field) {
  Json schema;
  if (field.is_repeated()) {
    schema["type"] = "array";
    schema["items"] = SchemaOf(*field.message_type());
    if (SettingOf(field).required()) schema["minItems"] = 1;
    schema["maxItems"] = Number(SettingOf(field).max(), true);
    return schema;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return SchemaOf(*field.message_type());
    case FieldDescriptor::CPPTYPE_STRING:
      schema["type"] = "string";
      if (TakesNumber(field)) {
        schema["type"] = {"string", "integer"};
        schema["minimum"] = 0;
      }
      return schema;
    case FieldDescriptor::CPPTYPE_BOOL:
      schema["type"] = "boolean";
      return schema;
    case FieldDescriptor::CPPTYPE_ENUM:
      schema["enum"] = EnumNames(*field.enum_type());
      return schema;
    default:
      break;
  }
  const bool is_number = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  schema["type"] = is_number ? "number" : "integer";
  AddBounds(field, &schema);
  return schema;
}

Json SchemaOfField(const FieldDescriptor& field) {
  const v1::SettingOptions& setting = SettingOf(field);
  Json schema = {{"description", setting.sentence()}};
  schema.update(SchemaOfValue(field));
  if (!setting.default_json().empty()) {
    schema["default"] = Json::parse(setting.default_json());
  }
  schema["examples"] = Json::array({Json::parse(setting.example_json())});
  return schema;
}

bool HasRequired(const Descriptor& message) {
  for (int i = 0; i < message.field_count(); ++i) {
    if (SettingOf(*message.field(i)).required()) return true;
  }
  return false;
}

Json ObjectOf(const Descriptor& message) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  Json& properties = schema["properties"] = Json::object();
  Json required = Json::array();
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    properties[field.name()] = SchemaOfField(field);
    if (SettingOf(field).required()) required.push_back(field.name());
  }
  if (!required.empty()) schema["required"] = required;
  for (int i = 0; i < message.real_oneof_decl_count(); ++i) {
    const OneofDescriptor& oneof = *message.oneof_decl(i);
    for (int j = 0; j < oneof.field_count(); ++j) {
      Json kind;
      kind["required"] = Json::array({oneof.field(j)->name()});
      schema["oneOf"].push_back(kind);
    }
  }
  return schema;
}

Json SchemaOf(const Descriptor& message) {
  Json object = ObjectOf(message);
  Json short_form;
  const FieldDescriptor* shorthand = ShorthandField(message);
  const OneofDescriptor* oneof = OnlyOneof(message);
  if (shorthand != nullptr) {
    short_form = SchemaOfValue(*shorthand);
  } else if (oneof != nullptr) {
    for (int i = 0; i < oneof->field_count(); ++i) {
      const FieldDescriptor& field = *oneof->field(i);
      if (field.message_type() != nullptr &&
          !HasRequired(*field.message_type())) {
        short_form["enum"].push_back(field.name());
      }
    }
  }
  if (short_form.is_null()) return object;
  Json schema;
  schema["anyOf"] = Json::array({short_form, object});
  return schema;
}

}  // namespace

std::string JobSchema() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "paramd job file"}};
  schema.update(ObjectOf(*v1::JobConfig::descriptor()));
  schema["properties"]["$schema"] = {
      {"description", "Where this schema is, for editors; ignored."},
      {"type", "string"}};
  return schema.dump(2) + "\n";
}

}  // namespace paramd
