#include "config/setting_value.h"

#include <charconv>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/json_value.h"
#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string ShortestText(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  return std::string(text, end);
}

std::string ValueText(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return QuoteJson(reflection.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return QuoteJson(EnumName(*reflection.GetEnum(message, &field)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return ShortestText(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(reflection.GetUInt32(message, &field));
    default:
      return absl::StrCat(reflection.GetUInt64(message, &field));
  }
}

bool IsDefault(const std::string& json, const FieldDescriptor& field) {
  const std::string& by_default = SettingOf(field).default_json();
  double ours = 0, theirs = 0;
  return json == by_default ||
         (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE &&
          absl::SimpleAtod(json, &ours) &&
          absl::SimpleAtod(by_default, &theirs) && ours == theirs);
}

// Adds what lies in `message`, of which `around` is known.
void Append(const Message& message, const SettingValue& around,
            std::vector<SettingValue>* values) {
  const Descriptor& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  if (type.field_count() == 0) {
    values->push_back(around);
    values->back().json = "{}";
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const v1::SettingOptions& options = SettingOf(field);
    SettingValue inside = around;
    inside.is_local |= options.scope() == v1::SCOPE_LOCAL;
    inside.may_change |= options.may_change();
    absl::StrAppend(&inside.path, around.path.empty() ? "" : ".", field.name());
    if (field.is_repeated()) {
      for (int j = 0; j < reflection.FieldSize(message, &field); ++j) {
        SettingValue element = inside;
        absl::StrAppend(&element.path, "[", j, "]");
        element.part_of = element.path;
        Append(reflection.GetRepeatedMessage(message, &field, j), element,
               values);
      }
    } else if (!reflection.HasField(message, &field)) {
      continue;
    } else if (field.message_type() != nullptr) {
      if (IsAlternative(field)) inside.part_of = inside.path;
      Append(reflection.GetMessage(message, &field), inside, values);
    } else {
      inside.json = ValueText(message, field);
      inside.is_default = IsDefault(inside.json, field);
      values->push_back(std::move(inside));
    }
  }
}

}  // namespace

std::vector<SettingValue> ValuesOf(const Message& message) {
  std::vector<SettingValue> values;
  Append(message, SettingValue(), &values);
  return values;
}

}  // namespace paramd
