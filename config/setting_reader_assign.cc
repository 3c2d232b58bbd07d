#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "google/protobuf/descriptor.h"

#include "config/key_lookup.h"
#include "config/setting.h"
#include "config/setting_reader.h"

// How a setting is replaced by its path.
namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Whether `text` stands for `field` as it is, whatever it would be as JSON.
bool IsText(const FieldDescriptor& field, absl::string_view text) {
  const bool is_list = field.is_repeated() && absl::StartsWith(text, "[");
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !is_list;
}

// Whether it is a secret, or a message that has one inside.
bool HasSecret(const FieldDescriptor& field) {
  return SettingOf(field).secret() ||
         (field.message_type() != nullptr &&
          !SecretNames(*field.message_type()).empty());
}

JsonValue StringValue(absl::string_view text) {
  JsonValue value;
  value.kind = JsonValue::Kind::kString;
  value.text = std::string(text);
  return value;
}

// `text` as JSON, or else as a string. Nullopt, with a mistake added, if it
// begins like an object or a list and is none. Nothing of a secret is shown.
absl::optional<JsonValue> ParseAssigned(absl::string_view text, bool is_text,
                                        bool is_secret,
                                        const JsonSource& source,
                                        const std::string& path,
                                        Mistakes* mistakes) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const bool is_structured =
      !trimmed.empty() && (trimmed[0] == '{' || trimmed[0] == '[');
  Mistakes not_json;
  if (is_structured && !is_text) {
    auto parsed = ParseJson(text, source, {}, is_secret ? &not_json : mistakes);
    if (is_secret && !parsed.has_value()) {
      mistakes->Add(source.At(0), path, "is not valid JSON");
    }
    return parsed;
  }
  absl::optional<JsonValue> value = ParseJson(text, source, {}, &not_json);
  const bool is_string =
      value.has_value() && value->kind == JsonValue::Kind::kString;
  if (value.has_value() && (is_string || !is_text)) return value;
  // Peers and programs are told texts as JSON.
  if (!ParseJson(QuoteJson(text), source, {}, &not_json).has_value()) {
    mistakes->Add(source.At(0), path, "is not valid UTF-8");
    return absl::nullopt;
  }
  return StringValue(text);
}

}  // namespace

void SettingReader::Assign(absl::string_view path, absl::string_view text,
                           const JsonSource& source, Message* root) {
  const std::vector<std::string> keys =
      absl::StrSplit(absl::StrReplaceAll(path, {{"[", "."}, {"]", ""}}), '.');
  Message* message = root;
  std::string at;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Descriptor& type = *message->GetDescriptor();
    const FieldDescriptor* field = FindKey(keys[i], &message);
    if (field == nullptr) {
      mistakes_.Add(source.At(0), JoinPath(at, Excerpt(keys[i])),
                    UnknownKey(keys[i], type));
      return;
    }
    at = JoinPath(at, field->name());
    if (i + 1 == keys.size()) {
      const auto value =
          ParseAssigned(text, IsText(*field, text), HasSecret(*field), source,
                        at, &mistakes_);
      ForgetInside(at);
      if (value) ReadField(*value, source, at, *field, message);
      return;
    }
    const bool is_single =
        i + 2 == keys.size() && field->message_type() == nullptr;
    if (field->is_repeated() && is_single) {
      return AssignElement(text, keys[i + 1], source, at, *field, message);
    }
    message = Enter(*field, keys[i + 1], source, &at, message);
    if (message == nullptr) return;
    if (!field->is_repeated()) continue;
    ++i;
    if (i + 1 == keys.size()) {
      const auto value =
          ParseAssigned(text, false, HasSecret(*field), source, at, &mistakes_);
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
  if (field.message_type() == nullptr) {
    mistakes_.Add(source.At(0), *path,
                  "holds a single value; nothing is inside it");
    return nullptr;
  }
  if (!field.is_repeated()) return reflection.MutableMessage(message, &field);
  const int number = FindElement(field, index, source, *path, *message);
  if (number < 0) return nullptr;
  absl::StrAppend(path, "[", number, "]");
  return reflection.MutableRepeatedMessage(message, &field, number);
}

int SettingReader::FindElement(const Field& field, absl::string_view index,
                               const JsonSource& source,
                               const std::string& path,
                               const Message& message) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  int number = 0;
  if (absl::SimpleAtoi(index, &number) && number >= 0 && number < size) {
    return number;
  }
  mistakes_.Add(source.At(0), path,
                absl::StrCat("has ", size, " elements, numbered from 0; '",
                             Excerpt(index), "' is none of them"));
  return -1;
}

void SettingReader::AssignElement(absl::string_view text,
                                  absl::string_view index,
                                  const JsonSource& source,
                                  const std::string& path, const Field& field,
                                  Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const int number = FindElement(field, index, source, path, *message);
  if (number < 0) return;
  const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  const auto value = ParseAssigned(text, is_text, SettingOf(field).secret(),
                                   source, path, &mistakes_);
  if (!value) return;
  const int size = reflection.FieldSize(*message, &field);
  ReadSingle(*value, source, absl::StrCat(path, "[", number, "]"), field,
             message);
  // A value that is wrong was not added.
  if (reflection.FieldSize(*message, &field) == size) return;
  reflection.SwapElements(message, &field, number, size);
  reflection.RemoveLast(message, &field);
  origins_[path] = source.At(0);
}

void SettingReader::ForgetInside(const std::string& path) {
  for (auto it = origins_.begin(); it != origins_.end();) {
    const bool is_inside = absl::StartsWith(it->first, path + ".") ||
                           absl::StartsWith(it->first, path + "[");
    it = is_inside ? origins_.erase(it) : std::next(it);
  }
}

}  // namespace paramd
