#include "config/setting_reader.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "config/nearest_name.h"
#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using Kind = JsonValue::Kind;

constexpr absl::string_view kDefaultSource = "default";

std::string Example(const FieldDescriptor& field) {
  const std::string& example = SettingOf(field).example_json();
  return example.empty() ? "" : absl::StrCat(", for example ", example);
}

bool IsMessage(const FieldDescriptor& field) {
  return field.message_type() != nullptr;
}

bool IsFloating(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
}

// Empty if `number` is within the bounds of the field's options.
std::string OutOfBounds(const FieldDescriptor& field, double number) {
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

std::vector<std::string> NamesOf(const OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) {
    names.push_back(oneof.field(i)->name());
  }
  return names;
}

bool IsGiven(const FieldDescriptor& field, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                             : reflection.HasField(message, &field);
}

JsonValue StringValue(absl::string_view text) {
  JsonValue value;
  value.kind = Kind::kString;
  value.text = std::string(text);
  return value;
}

// `text` as JSON, or else as a string. Nullopt, with a mistake added, if it
// begins like an object or a list and is none.
absl::optional<JsonValue> ParseAssigned(absl::string_view text, bool is_text,
                                        const JsonSource& source,
                                        const std::string& path,
                                        Mistakes* mistakes) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const bool is_structured =
      !trimmed.empty() && (trimmed[0] == '{' || trimmed[0] == '[');
  if (is_structured && !is_text) return ParseJson(text, source, {}, mistakes);
  Mistakes not_json;
  absl::optional<JsonValue> value = ParseJson(text, source, {}, &not_json);
  const bool is_string = value.has_value() && value->kind == Kind::kString;
  if (value.has_value() && (is_string || !is_text)) return value;
  // Peers and programs are told texts as JSON.
  if (!ParseJson(QuoteJson(text), source, {}, &not_json).has_value()) {
    mistakes->Add(source.At(0), path, "is not valid UTF-8");
    return absl::nullopt;
  }
  return StringValue(text);
}

}  // namespace

std::string JoinPath(absl::string_view path, absl::string_view key) {
  return absl::StrCat(path, path.empty() ? "" : ".", key);
}

Place OriginOf(const Origins& origins, const std::string& path) {
  std::string at = path;
  while (true) {
    const auto origin = origins.find(at);
    if (origin != origins.end()) return origin->second;
    if (at.empty()) return {"job", 0};
    const size_t end = at.find_last_of(".[");
    at.resize(end == std::string::npos ? 0 : end);
  }
}

OriginKind KindOf(const Place& origin) {
  if (origin.line > 0) return OriginKind::kFile;
  if (origin.source == kDefaultSource) return OriginKind::kDefault;
  return absl::StartsWith(origin.source, "--") ? OriginKind::kFlag
                                               : OriginKind::kEnvironment;
}

absl::string_view OriginKindName(OriginKind kind) {
  switch (kind) {
    case OriginKind::kDefault:
      return "default";
    case OriginKind::kFile:
      return "file";
    case OriginKind::kEnvironment:
      return "environment";
    case OriginKind::kFlag:
      return "flag";
  }
  return "";
}

void SettingReader::Fault(const JsonValue& value, const JsonSource& source,
                          const std::string& path, absl::string_view sentence) {
  mistakes_.Add(source.At(value.line), path, sentence);
}

void SettingReader::ReadMessage(const JsonValue& value,
                                const JsonSource& source,
                                const std::string& path, Message* message) {
  origins_[path] = source.At(value.line);
  if (value.kind == Kind::kObject) {
    for (const JsonMember& member : value.members) {
      ReadMember(member, source, path, message);
    }
    return;
  }
  if (ReadShorthand(value, source, path, message)) return;
  Fault(value, source, path,
        absl::StrCat("wants an object with the keys ",
                     absl::StrJoin(KeysOf(*message->GetDescriptor()), ", "),
                     "; found ", value.Describe()));
}

void SettingReader::ReadMember(const JsonMember& member,
                               const JsonSource& source,
                               const std::string& path, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  const FieldDescriptor* field = type.FindFieldByName(member.name);
  if (field == nullptr) {
    Fault(member.value, source, JoinPath(path, Excerpt(member.name)),
          absl::StrCat("unknown key",
                       NearestNameHint(member.name, KeysOf(type))));
    return;
  }
  const std::string inside = JoinPath(path, field->name());
  if (IsAlternative(*field)) {
    const FieldDescriptor* other =
        message->GetReflection()->GetOneofFieldDescriptor(
            *message, field->containing_oneof());
    if (other != nullptr && other != field) {
      Fault(member.value, source, inside,
            absl::StrCat("stands beside '", other->name(), "'; keep one"));
      return;
    }
  }
  ReadField(member.value, source, inside, *field, message);
}

bool SettingReader::ReadShorthand(const JsonValue& value,
                                  const JsonSource& source,
                                  const std::string& path, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  const FieldDescriptor* whole = ShorthandField(type);
  if (whole != nullptr && value.kind != Kind::kNull) {
    ReadField(value, source, JoinPath(path, whole->name()), *whole, message);
    return true;
  }
  const OneofDescriptor* oneof = OnlyOneof(type);
  if (oneof == nullptr || value.kind != Kind::kString) return false;
  const FieldDescriptor* kind = type.FindFieldByName(value.text);
  if (kind == nullptr || !IsMessage(*kind)) {
    Fault(value, source, path,
          absl::StrCat("unknown name ", value.Describe(),
                       NearestNameHint(value.text, NamesOf(*oneof))));
    return true;
  }
  message->GetReflection()->MutableMessage(message, kind);
  origins_[JoinPath(path, kind->name())] = source.At(value.line);
  return true;
}

void SettingReader::ReadField(const JsonValue& value, const JsonSource& source,
                              const std::string& path, const Field& field,
                              Message* parent) {
  origins_[path] = source.At(value.line);
  const Reflection& reflection = *parent->GetReflection();
  reflection.ClearField(parent, &field);
  if (field.is_repeated()) return ReadList(value, source, path, field, parent);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ReadMessage(value, source, path,
                         reflection.MutableMessage(parent, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      if (TakesNumber(field) && value.kind == Kind::kNumber && value.is_whole &&
          !value.is_negative) {
        reflection.SetString(parent, &field, absl::StrCat(value.magnitude));
        return;
      }
      if (value.kind != Kind::kString) break;
      reflection.SetString(parent, &field, value.text);
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value.kind != Kind::kBool) break;
      reflection.SetBool(parent, &field, value.boolean);
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      if (value.kind != Kind::kString) break;
      return ReadEnum(value, source, path, field, parent);
    default:
      return ReadNumber(value, source, path, field, parent);
  }
  const bool is_bool = field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
  Fault(value, source, path,
        absl::StrCat("wants ", is_bool ? "true or false" : "a string",
                     Example(field), "; found ", value.Describe()));
}

void SettingReader::ReadList(const JsonValue& value, const JsonSource& source,
                             const std::string& path, const Field& field,
                             Message* parent) {
  if (value.kind != Kind::kArray) {
    Fault(value, source, path,
          absl::StrCat("wants a list", Example(field), "; found ",
                       value.Describe()));
    return;
  }
  const std::string wrong =
      OutOfBounds(field, static_cast<double>(value.elements.size()));
  if (!wrong.empty()) {
    Fault(value, source, path,
          absl::StrCat("must have ", wrong, " elements; found ",
                       value.elements.size()));
    return;
  }
  for (size_t i = 0; i < value.elements.size(); ++i) {
    ReadMessage(value.elements[i], source, absl::StrCat(path, "[", i, "]"),
                parent->GetReflection()->AddMessage(parent, &field));
  }
}

void SettingReader::ReadEnum(const JsonValue& value, const JsonSource& source,
                             const std::string& path, const Field& field,
                             Message* parent) {
  const google::protobuf::EnumDescriptor& type = *field.enum_type();
  for (int i = 0; i < type.value_count(); ++i) {
    const EnumValueDescriptor* candidate = type.value(i);
    if (candidate->number() == 0 || EnumName(*candidate) != value.text) {
      continue;
    }
    parent->GetReflection()->SetEnum(parent, &field, candidate);
    return;
  }
  const std::vector<std::string> names = EnumNames(type);
  const std::string nearest = NearestName(value.text, names);
  Fault(value, source, path,
        absl::StrCat("must be one of ", absl::StrJoin(names, ", "), "; found ",
                     value.Describe(),
                     nearest.empty()
                         ? ""
                         : absl::StrCat("; did you mean '", nearest, "'?")));
}

void SettingReader::ReadNumber(const JsonValue& value, const JsonSource& source,
                               const std::string& path, const Field& field,
                               Message* parent) {
  const bool is_floating = IsFloating(field);
  if (value.kind != Kind::kNumber || (!is_floating && !value.is_whole)) {
    Fault(value, source, path,
          absl::StrCat("wants a ", is_floating ? "number" : "whole number",
                       Example(field), "; found ", value.Describe()));
    return;
  }
  const bool is_32_bits = field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32;
  std::string wrong = OutOfBounds(field, value.number);
  if (wrong.empty() && !is_floating && value.is_negative) wrong = "at least 0";
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  if (wrong.empty() && is_32_bits && value.magnitude > kMost) {
    wrong = absl::StrCat("at most ", kMost);
  }
  if (!wrong.empty()) {
    Fault(value, source, path,
          absl::StrCat("must be ", wrong, "; found ", value.Describe()));
    return;
  }
  const Reflection& reflection = *parent->GetReflection();
  if (is_floating) {
    reflection.SetDouble(parent, &field, value.number);
  } else if (is_32_bits) {
    reflection.SetUInt32(parent, &field,
                         static_cast<uint32_t>(value.magnitude));
  } else {
    reflection.SetUInt64(parent, &field, value.magnitude);
  }
}

void SettingReader::Assign(absl::string_view path, absl::string_view text,
                           const JsonSource& source, Message* root) {
  const std::vector<std::string> keys =
      absl::StrSplit(absl::StrReplaceAll(path, {{"[", "."}, {"]", ""}}), '.');
  Message* message = root;
  std::string at;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Descriptor& type = *message->GetDescriptor();
    const FieldDescriptor* field = type.FindFieldByName(keys[i]);
    if (field == nullptr) {
      mistakes_.Add(
          source.At(0), JoinPath(at, Excerpt(keys[i])),
          absl::StrCat("unknown key", NearestNameHint(keys[i], KeysOf(type))));
      return;
    }
    at = JoinPath(at, field->name());
    if (i + 1 == keys.size()) {
      const bool is_text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      const auto value = ParseAssigned(text, is_text, source, at, &mistakes_);
      ForgetInside(at);
      if (value) ReadField(*value, source, at, *field, message);
      return;
    }
    message = Enter(*field, keys[i + 1], source, &at, message);
    if (message == nullptr) return;
    if (!field->is_repeated()) continue;
    ++i;
    if (i + 1 == keys.size()) {
      const auto value = ParseAssigned(text, false, source, at, &mistakes_);
      ForgetInside(at);
      message->Clear();
      if (value) ReadMessage(*value, source, at, message);
    }
  }
}

Message* SettingReader::Enter(const Field& field, absl::string_view index,
                              const JsonSource& source, std::string* path,
                              Message* message) {
  const Reflection& reflection = *message->GetReflection();
  if (!IsMessage(field)) {
    mistakes_.Add(source.At(0), *path,
                  "holds a single value; nothing is inside it");
    return nullptr;
  }
  if (!field.is_repeated()) return reflection.MutableMessage(message, &field);
  const int size = reflection.FieldSize(*message, &field);
  int number = 0;
  if (!absl::SimpleAtoi(index, &number) || number < 0 || number >= size) {
    mistakes_.Add(source.At(0), *path,
                  absl::StrCat("has ", size, " elements, numbered from 0; '",
                               Excerpt(index), "' is none of them"));
    return nullptr;
  }
  absl::StrAppend(path, "[", number, "]");
  return reflection.MutableRepeatedMessage(message, &field, number);
}

void SettingReader::ForgetInside(const std::string& path) {
  for (auto it = origins_.begin(); it != origins_.end();) {
    const bool is_inside = absl::StartsWith(it->first, path + ".") ||
                           absl::StartsWith(it->first, path + "[");
    it = is_inside ? origins_.erase(it) : std::next(it);
  }
}

void SettingReader::FillDefaults(const std::string& path, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    FillField(JoinPath(path, field.name()), field, message);
  }
  CheckAlternatives(path, *message);
}

void SettingReader::FillField(const std::string& path, const Field& field,
                              Message* parent) {
  const Reflection& reflection = *parent->GetReflection();
  const v1::SettingOptions& setting = SettingOf(field);
  const bool is_given = IsGiven(field, *parent);
  if (!is_given && setting.required()) {
    if (mistakes_.HasUnder(path)) return;
    mistakes_.Add(PlaceOf(path), path,
                  absl::StrCat("is missing; give it", Example(field)));
    return;
  }
  if (field.is_repeated()) {
    for (int i = 0; i < reflection.FieldSize(*parent, &field); ++i) {
      FillDefaults(absl::StrCat(path, "[", i, "]"),
                   reflection.MutableRepeatedMessage(parent, &field, i));
    }
    return;
  }
  if (IsMessage(field)) {
    if (mistakes_.HasAt(path) || (!is_given && IsAlternative(field))) return;
    return FillDefaults(path, reflection.MutableMessage(parent, &field));
  }
  if (is_given || setting.default_json().empty()) return;
  const JsonSource source = {std::string(kDefaultSource), false};
  const absl::optional<JsonValue> value =
      ParseJson(setting.default_json(), source, {}, &mistakes_);
  if (value.has_value() && !mistakes_.HasUnder(path)) {
    ReadField(*value, source, path, field, parent);
  }
}

void SettingReader::CheckAlternatives(const std::string& path,
                                      const Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    const OneofDescriptor* oneof = type.oneof_decl(i);
    if (message.GetReflection()->HasOneof(message, oneof)) continue;
    if (mistakes_.HasUnder(path)) continue;
    mistakes_.Add(PlaceOf(path), path,
                  absl::StrCat("says no ", oneof->name(), "; give one of ",
                               absl::StrJoin(NamesOf(*oneof), ", ")));
  }
}

}  // namespace paramd
