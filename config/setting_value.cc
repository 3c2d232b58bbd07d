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

// Of the field, or of element `i` of a list.
std::string ElementText(const Message& message, const FieldDescriptor& field,
                        int i) {
  const Reflection& r = *message.GetReflection();
  const bool is_list = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return QuoteJson(is_list ? r.GetRepeatedString(message, &field, i)
                               : r.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL: {
      const bool value = is_list ? r.GetRepeatedBool(message, &field, i)
                                 : r.GetBool(message, &field);
      return value ? "true" : "false";
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return QuoteJson(EnumName(is_list ? *r.GetRepeatedEnum(message, &field, i)
                                        : *r.GetEnum(message, &field)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return ShortestText(is_list ? r.GetRepeatedDouble(message, &field, i)
                                  : r.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(is_list ? r.GetRepeatedInt32(message, &field, i)
                                  : r.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(is_list ? r.GetRepeatedInt64(message, &field, i)
                                  : r.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(is_list ? r.GetRepeatedUInt32(message, &field, i)
                                  : r.GetUInt32(message, &field));
    default:
      return absl::StrCat(is_list ? r.GetRepeatedUInt64(message, &field, i)
                                  : r.GetUInt64(message, &field));
  }
}

std::string ValueText(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) return ElementText(message, field, 0);
  const int size = message.GetReflection()->FieldSize(message, &field);
  std::string list;
  for (int i = 0; i < size; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ",", ElementText(message, field, i));
  }
  return absl::StrCat("[", list, "]");
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
    if (field.is_repeated() && field.message_type() != nullptr) {
      for (int j = 0; j < reflection.FieldSize(message, &field); ++j) {
        SettingValue element = inside;
        absl::StrAppend(&element.path, "[", j, "]");
        element.part_of = element.path;
        Append(reflection.GetRepeatedMessage(message, &field, j), element,
               values);
      }
    } else if (field.is_repeated() ? reflection.FieldSize(message, &field) == 0
                                   : !reflection.HasField(message, &field)) {
      continue;
    } else if (field.message_type() != nullptr) {
      if (IsAlternative(field) || options.may_be_absent()) {
        inside.part_of = inside.path;
      }
      Append(reflection.GetMessage(message, &field), inside, values);
    } else {
      inside.json = ValueText(message, field);
      inside.is_default = IsDefault(inside.json, field);
      inside.is_secret = options.secret() && !inside.is_default;
      if (inside.is_secret) inside.json = std::string(kSecretJson);
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
