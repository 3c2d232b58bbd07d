#include "config/setting.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;

// "LOG_LEVEL_" for LogLevel.
std::string EnumPrefix(const EnumDescriptor& type) {
  std::string prefix;
  for (const char c : type.name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  return prefix + "_";
}

void AppendPaths(const Descriptor& message, const std::string& prefix,
                 std::vector<std::string>* paths) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string path = absl::StrCat(prefix, field.name());
    paths->push_back(path);
    if (!field.is_repeated() && field.message_type() != nullptr) {
      AppendPaths(*field.message_type(), path + ".", paths);
    }
  }
}

}  // namespace

const v1::SettingOptions& SettingOf(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::setting);
}

std::vector<std::string> SecretNames(const Descriptor& message) {
  std::vector<std::string> names;
  std::vector<const Descriptor*> types = {&message};
  for (size_t i = 0; i < types.size(); ++i) {
    for (int j = 0; j < types[i]->field_count(); ++j) {
      const FieldDescriptor& field = *types[i]->field(j);
      if (SettingOf(field).secret()) names.push_back(field.name());
      const Descriptor* const type = field.message_type();
      const bool is_known =
          std::find(types.begin(), types.end(), type) != types.end();
      if (type != nullptr && !is_known) types.push_back(type);
    }
  }
  return names;
}

void SetDefaultNumbers(google::protobuf::Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  const Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string& json = SettingOf(field).default_json();
    if (json.empty() || field.is_repeated() ||
        reflection.HasField(*message, &field)) {
      continue;
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      reflection.SetBool(message, &field, json == "true");
      continue;
    }
    double number = 0;
    if (!absl::SimpleAtod(json, &number)) continue;  // A text is in quotes.
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.SetDouble(message, &field, number);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(message, &field, static_cast<int32_t>(number));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(message, &field, static_cast<int64_t>(number));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.SetUInt32(message, &field, static_cast<uint32_t>(number));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetUInt64(message, &field, static_cast<uint64_t>(number));
        break;
      default:
        break;
    }
  }
}

bool IsAlternative(const FieldDescriptor& field) {
  return field.real_containing_oneof() != nullptr;
}

std::string EnumName(const EnumValueDescriptor& value) {
  if (value.number() == 0) return "";
  const std::string prefix = EnumPrefix(*value.type());
  return absl::AsciiStrToLower(absl::StripPrefix(value.name(), prefix));
}

std::vector<std::string> EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    const std::string name = EnumName(*type.value(i));
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

const FieldDescriptor* SpreadField(const Descriptor& message) {
  for (int i = 0; i < message.field_count(); ++i) {
    if (SettingOf(*message.field(i)).spread()) return message.field(i);
  }
  return nullptr;
}

std::vector<const FieldDescriptor*> FieldsAt(const Descriptor& message) {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message.field_count(); ++i) {
    if (!SettingOf(*message.field(i)).spread()) {
      fields.push_back(message.field(i));
    }
  }
  const FieldDescriptor* const spread = SpreadField(message);
  if (spread == nullptr) return fields;
  const Descriptor& inside = *spread->message_type();
  for (int i = 0; i < inside.field_count(); ++i) {
    const v1::SettingOptions& setting = SettingOf(*inside.field(i));
    if (setting.scope() != v1::SCOPE_LOCAL && !setting.of_all_stages()) {
      fields.push_back(inside.field(i));
    }
  }
  return fields;
}

std::vector<std::string> KeysOf(const Descriptor& message) {
  std::vector<std::string> keys;
  for (const FieldDescriptor* field : FieldsAt(message)) {
    keys.push_back(field->name());
  }
  return keys;
}

const OneofDescriptor* OnlyOneof(const Descriptor& message) {
  if (message.real_oneof_decl_count() != 1) return nullptr;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const bool fits = IsAlternative(field) ? field.message_type() != nullptr
                                           : !SettingOf(field).required();
    if (!fits) return nullptr;
  }
  return message.oneof_decl(0);
}

const FieldDescriptor* ShorthandField(const Descriptor& message) {
  for (int i = 0; i < message.field_count(); ++i) {
    if (SettingOf(*message.field(i)).shorthand()) return message.field(i);
  }
  return nullptr;
}

std::string FormatNumber(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) {
    return absl::StrFormat("%.0f", number);
  }
  return absl::StrFormat("%.9g", number);
}

std::string BrokenBound(const FieldDescriptor& field, double number) {
  const v1::SettingOptions& setting = SettingOf(field);
  if (setting.has_min() && number < setting.min()) {
    return absl::StrCat("at least ", FormatNumber(setting.min()));
  }
  if (setting.has_max() && number > setting.max()) {
    return absl::StrCat("at most ", FormatNumber(setting.max()));
  }
  if (setting.has_above() && number <= setting.above()) {
    return absl::StrCat("greater than ", FormatNumber(setting.above()));
  }
  if (setting.has_below() && number >= setting.below()) {
    return absl::StrCat("less than ", FormatNumber(setting.below()));
  }
  return "";
}

std::string BrokenLength(const FieldDescriptor& field, uint64_t elements) {
  const v1::SettingOptions& setting = SettingOf(field);
  if (setting.has_min_elements() && elements < setting.min_elements()) {
    return absl::StrCat("at least ", setting.min_elements());
  }
  if (setting.has_max_elements() && elements > setting.max_elements()) {
    return absl::StrCat("at most ", setting.max_elements());
  }
  return "";
}

bool TakesNumber(const FieldDescriptor& field) {
  absl::string_view example = SettingOf(field).example_json();
  uint64_t number = 0;
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
         absl::ConsumePrefix(&example, "\"") &&
         absl::ConsumeSuffix(&example, "\"") &&
         absl::SimpleAtoi(example, &number);
}

std::string BoundsOf(const FieldDescriptor& field) {
  const v1::SettingOptions& setting = SettingOf(field);
  std::vector<std::string> bounds;
  const auto add = [&](absl::string_view words, double number) {
    bounds.push_back(absl::StrCat(field.is_repeated() ? "each " : "", words,
                                  " ", FormatNumber(number)));
  };
  if (setting.has_min()) add("at least", setting.min());
  if (setting.has_above()) add("greater than", setting.above());
  if (setting.has_max()) add("at most", setting.max());
  if (setting.has_below()) add("less than", setting.below());
  if (setting.has_min_elements()) {
    bounds.push_back(
        absl::StrCat("at least ", setting.min_elements(), " elements"));
  }
  if (setting.has_max_elements()) {
    bounds.push_back(
        absl::StrCat("at most ", setting.max_elements(), " elements"));
  }
  return absl::StrJoin(bounds, ", ");
}

std::vector<std::string> SettingPaths(const Descriptor& message) {
  std::vector<std::string> paths;
  AppendPaths(message, "", &paths);
  return paths;
}

std::string EnvironmentName(absl::string_view path) {
  return absl::StrCat("PARAMD_", absl::AsciiStrToUpper(
                                     absl::StrReplaceAll(path, {{".", "_"}})));
}

}  // namespace paramd
