#include "config/setting_value.h"

#include <charconv>

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

void Append(const Message& message, const std::string& path, bool is_local,
            std::vector<SettingValue>* values) {
  const Descriptor& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  if (type.field_count() == 0) values->push_back({path, "{}", is_local});
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool is_local_here =
        is_local || SettingOf(field).scope() == v1::SCOPE_LOCAL;
    const std::string inside =
        absl::StrCat(path, path.empty() ? "" : ".", field.name());
    if (field.is_repeated()) {
      for (int j = 0; j < reflection.FieldSize(message, &field); ++j) {
        Append(reflection.GetRepeatedMessage(message, &field, j),
               absl::StrCat(inside, "[", j, "]"), is_local_here, values);
      }
    } else if (!reflection.HasField(message, &field)) {
      continue;
    } else if (field.message_type() != nullptr) {
      Append(reflection.GetMessage(message, &field), inside, is_local_here,
             values);
    } else {
      values->push_back({inside, ValueText(message, field), is_local_here});
    }
  }
}

}  // namespace

std::vector<SettingValue> ValuesOf(const Message& message) {
  std::vector<SettingValue> values;
  Append(message, "", false, &values);
  return values;
}

}  // namespace paramd
