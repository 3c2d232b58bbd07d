#include "config/job_schema.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "nlohmann/json.hpp"

#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;
using Json = nlohmann::ordered_json;

// The schemas of types that hold themselves, by name.
using Definitions = Json;

// Whether all that is required must be there, or what is given differs from an
// object elsewhere that has the rest.
enum class Extent { kWhole, kPart };

Json SchemaOf(const Descriptor& message, Definitions* definitions,
              Extent extent = Extent::kWhole);

bool Reaches(const Descriptor& from, const Descriptor& to,
             std::set<const Descriptor*>* seen) {
  for (int i = 0; i < from.field_count(); ++i) {
    const Descriptor* inside = from.field(i)->message_type();
    if (inside == nullptr) continue;
    if (inside == &to) return true;
    if (seen->insert(inside).second && Reaches(*inside, to, seen)) return true;
  }
  return false;
}

bool HoldsItself(const Descriptor& message) {
  std::set<const Descriptor*> seen;
  return Reaches(message, message, &seen);
}

// "Layer.Dense" for paramd.v1.Layer.Dense.
std::string DefinitionName(const Descriptor& message) {
  return message.full_name().substr(message.file()->package().size() + 1);
}

// Whether a list within it has elements like it.
bool IsInAListOfItself(const Descriptor& message, const Descriptor& around,
                       std::set<const Descriptor*>* seen) {
  for (int i = 0; i < around.field_count(); ++i) {
    const FieldDescriptor& field = *around.field(i);
    const Descriptor* inside = field.message_type();
    if (inside == nullptr) continue;
    if (inside == &message && field.is_repeated()) return true;
    if (seen->insert(inside).second &&
        IsInAListOfItself(message, *inside, seen)) {
      return true;
    }
  }
  return false;
}

bool IsInAListOfItself(const Descriptor& message) {
  std::set<const Descriptor*> seen;
  return IsInAListOfItself(message, message, &seen);
}

// A type holds itself through lists only, so it is enough to name it there.
Json SchemaOfElement(const Descriptor& message, Definitions* definitions) {
  if (!HoldsItself(message)) return SchemaOf(message, definitions);
  const std::string name = DefinitionName(message);
  if (!definitions->contains(name)) {
    (*definitions)[name] = Json::object();  // Found when it is met inside.
    Json schema = SchemaOf(message, definitions);
    (*definitions)[name] = std::move(schema);
  }
  return {{"$ref", "#/definitions/" + name}};
}

// A bound of a whole number without a fraction.
Json Number(double number, bool is_whole) {
  return is_whole ? Json(static_cast<int64_t>(number)) : Json(number);
}

void AddBounds(const FieldDescriptor& field, Json* schema) {
  const v1::SettingOptions& setting = SettingOf(field);
  const bool is_whole = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  const bool is_unsigned =
      field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
      field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
  if (setting.has_min()) {
    (*schema)["minimum"] = Number(setting.min(), is_whole);
  } else if (is_unsigned) {
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

// Of a field that is no list, or of an element of one.
Json SchemaOfSingle(const FieldDescriptor& field, Definitions* definitions,
                    Extent extent) {
  Json schema;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return field.is_repeated() || IsInAListOfItself(*field.message_type())
                 ? SchemaOfElement(*field.message_type(), definitions)
                 : SchemaOf(*field.message_type(), definitions, extent);
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

Json SchemaOfValue(const FieldDescriptor& field, Definitions* definitions,
                   Extent extent) {
  if (!field.is_repeated()) return SchemaOfSingle(field, definitions, extent);
  const v1::SettingOptions& setting = SettingOf(field);
  Json list = {{"type", "array"}};
  const Json element = list["items"] =
      SchemaOfSingle(field, definitions, Extent::kWhole);
  const uint32_t least = setting.required() ? 1u : setting.min_elements();
  // An empty list stands for the default.
  if (least > 0 && setting.default_json().empty()) {
    list["minItems"] = std::max(least, setting.min_elements());
  }
  if (setting.has_max_elements()) list["maxItems"] = setting.max_elements();
  if (field.message_type() != nullptr) return list;
  Json schema;
  schema["anyOf"] = Json::array({element, list});
  return schema;
}

Json SchemaOfField(const FieldDescriptor& field, Definitions* definitions,
                   Extent extent) {
  const v1::SettingOptions& setting = SettingOf(field);
  Json schema = {{"description", setting.sentence()}};
  schema.update(SchemaOfValue(field, definitions, extent));
  if (!setting.default_json().empty()) {
    schema["default"] = Json::parse(setting.default_json());
  }
  schema["examples"] = Json::array({Json::parse(setting.example_json())});
  return schema;
}

// Whatever else is given.
bool MustBeGiven(const FieldDescriptor& field) {
  return SettingOf(field).required() &&
         SettingOf(field).required_unless().empty();
}

bool HasRequired(const Descriptor& message) {
  for (int i = 0; i < message.field_count(); ++i) {
    if (MustBeGiven(*message.field(i))) return true;
  }
  return false;
}

Json ObjectOf(const Descriptor& message, Definitions* definitions,
              Extent extent = Extent::kWhole) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  Json& properties = schema["properties"] = Json::object();
  Json required = Json::array();
  for (const FieldDescriptor* field : FieldsAt(message)) {
    const bool is_own = field->containing_type() == &message;
    const Extent of_field = is_own ? extent : Extent::kPart;
    properties[field->name()] = SchemaOfField(*field, definitions, of_field);
    if (of_field == Extent::kWhole && MustBeGiven(*field)) {
      required.push_back(field->name());
    }
  }
  if (!required.empty()) schema["required"] = required;
  if (extent == Extent::kPart) return schema;
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

Json SchemaOf(const Descriptor& message, Definitions* definitions,
              Extent extent) {
  Json object = ObjectOf(message, definitions, extent);
  Json short_form;
  const FieldDescriptor* shorthand = ShorthandField(message);
  const OneofDescriptor* oneof = OnlyOneof(message);
  if (shorthand != nullptr) {
    short_form = SchemaOfValue(*shorthand, definitions, extent);
  } else if (oneof != nullptr) {
    for (int i = 0; i < oneof->field_count(); ++i) {
      const FieldDescriptor& field = *oneof->field(i);
      if (field.message_type() != nullptr && IsAlternative(field) &&
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

std::string JobSchema(const Descriptor& job) {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "paramd job file"}};
  Definitions definitions = Json::object();
  schema.update(ObjectOf(job, &definitions));
  schema["properties"]["$schema"] = {
      {"description", "Where this schema is, for editors; ignored."},
      {"type", "string"}};
  if (!definitions.empty()) schema["definitions"] = definitions;
  return schema.dump(2) + "\n";
}

}  // namespace paramd
