#include "config/setting_reader.h"

#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "config/key_lookup.h"
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
// In required_unless: of what is around the message that a setting is in.
constexpr absl::string_view kBeside = "../";

std::string Example(const FieldDescriptor& field) {
  const std::string& example = SettingOf(field).example_json();
  return example.empty() ? "" : absl::StrCat(", for example ", example);
}

bool IsMessage(const FieldDescriptor& field) {
  return field.message_type() != nullptr;
}

bool IsFloating(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
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

// Each Put sets the field, or adds an element to a list.
void PutText(const FieldDescriptor& field, const std::string& text,
             Message* message) {
  const Reflection& reflection = *message->GetReflection();
  field.is_repeated() ? reflection.AddString(message, &field, text)
                      : reflection.SetString(message, &field, text);
}

void PutBool(const FieldDescriptor& field, bool value, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  field.is_repeated() ? reflection.AddBool(message, &field, value)
                      : reflection.SetBool(message, &field, value);
}

void PutEnum(const FieldDescriptor& field, const EnumValueDescriptor& value,
             Message* message) {
  const Reflection& reflection = *message->GetReflection();
  field.is_repeated() ? reflection.AddEnum(message, &field, &value)
                      : reflection.SetEnum(message, &field, &value);
}

// REQUIRES: `value` is a number that the field's type holds.
void PutNumber(const FieldDescriptor& field, const JsonValue& value,
               Message* message) {
  const Reflection& r = *message->GetReflection();
  const bool is_list = field.is_repeated();
  const int64_t whole = static_cast<int64_t>(
      value.is_negative ? uint64_t{0} - value.magnitude : value.magnitude);
  const uint32_t whole32 = static_cast<uint32_t>(value.magnitude);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return is_list ? r.AddDouble(message, &field, value.number)
                     : r.SetDouble(message, &field, value.number);
    case FieldDescriptor::CPPTYPE_INT32:
      return is_list ? r.AddInt32(message, &field, static_cast<int32_t>(whole))
                     : r.SetInt32(message, &field, static_cast<int32_t>(whole));
    case FieldDescriptor::CPPTYPE_INT64:
      return is_list ? r.AddInt64(message, &field, whole)
                     : r.SetInt64(message, &field, whole);
    case FieldDescriptor::CPPTYPE_UINT32:
      return is_list ? r.AddUInt32(message, &field, whole32)
                     : r.SetUInt32(message, &field, whole32);
    default:
      return is_list ? r.AddUInt64(message, &field, value.magnitude)
                     : r.SetUInt64(message, &field, value.magnitude);
  }
}

// The largest magnitude that a field of whole numbers holds.
uint64_t MostOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return std::numeric_limits<int32_t>::max();
    case FieldDescriptor::CPPTYPE_INT64:
      return std::numeric_limits<int64_t>::max();
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::numeric_limits<uint32_t>::max();
    default:
      return std::numeric_limits<uint64_t>::max();
  }
}

bool IsSigned(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
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
  const FieldDescriptor* field = FindKey(member.name, &message);
  if (field == nullptr) {
    Fault(member.value, source, JoinPath(path, Excerpt(member.name)),
          UnknownKey(member.name, type));
    return;
  }
  const std::string inside = JoinPath(path, field->name());
  if (IsAlternative(*field)) {
    const FieldDescriptor* other =
        message->GetReflection()->GetOneofFieldDescriptor(
            *message, field->containing_oneof());
    if (other != nullptr && other != field) {
      Fault(member.value, source, inside,
            absl::StrCat("conflicts with '", other->name(), "'; keep one"));
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
  if (kind == nullptr || !IsAlternative(*kind)) {
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
  parent->GetReflection()->ClearField(parent, &field);
  field.is_repeated() ? ReadList(value, source, path, field, parent)
                      : ReadSingle(value, source, path, field, parent);
}

void SettingReader::ReadSingle(const JsonValue& value, const JsonSource& source,
                               const std::string& path, const Field& field,
                               Message* parent) {
  const Reflection& reflection = *parent->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ReadMessage(value, source, path,
                         field.is_repeated()
                             ? reflection.AddMessage(parent, &field)
                             : reflection.MutableMessage(parent, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      if (TakesNumber(field) && value.kind == Kind::kNumber && value.is_whole &&
          !value.is_negative) {
        return PutText(field, absl::StrCat(value.magnitude), parent);
      }
      if (value.kind != Kind::kString) break;
      return PutText(field, value.text, parent);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value.kind != Kind::kBool) break;
      return PutBool(field, value.boolean, parent);
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
  const bool is_array = value.kind == Kind::kArray;
  const bool is_single = value.kind != Kind::kObject &&
                         value.kind != Kind::kNull && !IsMessage(field);
  if (!is_array && !is_single) {
    Fault(value, source, path,
          absl::StrCat("wants a list", Example(field), "; found ",
                       value.Describe()));
    return;
  }
  const absl::Span<const JsonValue> elements =
      is_array ? absl::MakeConstSpan(value.elements)
               : absl::MakeConstSpan(&value, 1);
  // An empty list stands for the default, where there is one.
  const bool is_default =
      elements.empty() && !SettingOf(field).default_json().empty();
  const std::string wrong =
      is_default ? "" : BrokenLength(field, elements.size());
  if (!wrong.empty()) {
    Fault(value, source, path,
          absl::StrCat("must have ", wrong, " elements; found ",
                       elements.size()));
    return;
  }
  for (size_t i = 0; i < elements.size(); ++i) {
    ReadSingle(elements[i], source,
               is_array ? absl::StrCat(path, "[", i, "]") : path, field,
               parent);
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
    return PutEnum(field, *candidate, parent);
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
  std::string wrong = BrokenBound(field, value.number);
  if (wrong.empty() && !is_floating) {
    const uint64_t most = MostOf(field);
    if (value.is_negative && !IsSigned(field)) {
      wrong = "at least 0";
    } else if (value.magnitude > most) {
      wrong = value.is_negative ? absl::StrCat("at least -", most)
                                : absl::StrCat("at most ", most);
    }
  }
  if (!wrong.empty()) {
    Fault(value, source, path,
          absl::StrCat("must be ", wrong, "; found ", value.Describe()));
    return;
  }
  PutNumber(field, value, parent);
}

void SettingReader::FillDefaults(Message* message) {
  filled_ = message;
  FillDefaultsAt("", message);
  filled_ = nullptr;
}

bool SettingReader::IsExcused(const v1::SettingOptions& setting,
                              absl::string_view at) const {
  for (absl::string_view path :
       absl::StrSplit(setting.required_unless(), ',', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&path, kBeside)) {
      const absl::string_view around = at.substr(0, at.rfind('.'));
      const absl::string_view outside = around.substr(0, around.rfind('.'));
      if (WasGiven(JoinPath(outside, path))) return true;
    } else if (Excuses(path)) {
      return true;
    }
  }
  return false;
}

// It, or what lies in it.
bool SettingReader::WasGiven(const std::string& path) const {
  if (origins_.count(path) > 0) return true;
  const std::string inside = absl::StrCat(path, ".");
  const auto next = origins_.lower_bound(inside);
  return next != origins_.end() && absl::StartsWith(next->first, inside);
}

bool SettingReader::Excuses(absl::string_view path) const {
  const Message* message = filled_;
  const FieldDescriptor* field = nullptr;
  for (const absl::string_view key : absl::StrSplit(path, '.')) {
    if (field != nullptr) {
      message = &message->GetReflection()->GetMessage(*message, field);
    }
    field = message->GetDescriptor()->FindFieldByName(std::string(key));
    if (field == nullptr) return false;  // In another message's tests.
  }
  const Reflection& reflection = *message->GetReflection();
  return field->is_repeated() ? reflection.FieldSize(*message, field) > 0
                              : reflection.GetBool(*message, field);
}

void SettingReader::FillDefaultsAt(const std::string& path, Message* message) {
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
  if (setting.spread()) return;
  const bool is_given = IsGiven(field, *parent);
  if (!is_given && setting.required()) {
    if (mistakes_.HasUnder(path) || IsExcused(setting, path)) return;
    mistakes_.Add(PlaceOf(path), path,
                  absl::StrCat("is missing; give it", Example(field)));
    return;
  }
  if (field.is_repeated() && IsMessage(field)) {
    for (int i = 0; i < reflection.FieldSize(*parent, &field); ++i) {
      FillDefaultsAt(absl::StrCat(path, "[", i, "]"),
                     reflection.MutableRepeatedMessage(parent, &field, i));
    }
    return;
  }
  if (IsMessage(field)) {
    const bool may_be_absent = IsAlternative(field) || setting.may_be_absent();
    if (mistakes_.HasAt(path) || (!is_given && may_be_absent)) return;
    return FillDefaultsAt(path, reflection.MutableMessage(parent, &field));
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
