#include "config/settings_help.h"

#include <deque>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::string TypeOf(const FieldDescriptor& field) {
  const bool is_list = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return is_list ? "list" : "object";
    case FieldDescriptor::CPPTYPE_STRING:
      return is_list ? "list of texts" : "text";
    case FieldDescriptor::CPPTYPE_BOOL:
      return is_list ? "list of true or false" : "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat(is_list ? "list of " : "one of ",
                          absl::StrJoin(EnumNames(*field.enum_type()), ", "));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return is_list ? "list of numbers" : "number";
    default:
      return is_list ? "list of whole numbers" : "whole number";
  }
}

// Where each type of message is described, for lists of it: of several places
// that which the fewest others stand around, and of these the first.
using DescribedAt = std::map<const Descriptor*, std::string>;

DescribedAt FindDescribed(const Descriptor& top) {
  struct Place {
    const Descriptor* message;
    std::string path;
  };
  DescribedAt described;
  std::deque<Place> places = {{&top, ""}};
  for (; !places.empty(); places.pop_front()) {
    const Place& place = places.front();
    for (int i = 0; i < place.message->field_count(); ++i) {
      const FieldDescriptor& field = *place.message->field(i);
      if (field.message_type() == nullptr || SettingOf(field).spread()) {
        continue;
      }
      const std::string path =
          absl::StrCat(place.path, place.path.empty() ? "" : ".", field.name(),
                       field.is_repeated() ? "[]" : "");
      const bool is_new = described.emplace(field.message_type(), path).second;
      if (is_new || !field.is_repeated()) {
        places.push_back({field.message_type(), path});
      }
    }
  }
  return described;
}

void Append(const Descriptor& message, const SettingHelp& around,
            const DescribedAt& described, std::vector<SettingHelp>* settings) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const v1::SettingOptions& options = SettingOf(field);
    if (options.spread()) continue;  // Its keys are described where it is.
    SettingHelp help;
    help.path =
        absl::StrCat(around.path, around.path.empty() ? "" : ".", field.name());
    help.type = TypeOf(field);
    help.bounds = BoundsOf(field);
    help.sentence = options.sentence();
    help.default_json = options.default_json();
    help.example_json = options.example_json();
    help.is_required = options.required();
    help.required_unless = options.required_unless();
    help.is_local = around.is_local || options.scope() == v1::SCOPE_LOCAL;
    help.may_change = around.may_change || options.may_change();
    help.is_alternative = IsAlternative(field);
    help.is_inside_list = around.is_inside_list;
    help.field = &field;
    if (field.is_repeated() && field.message_type() != nullptr) {
      const std::string& at = described.at(field.message_type());
      if (at != help.path + "[]") help.described_at = at;
    }
    settings->push_back(help);
    if (field.message_type() == nullptr || !help.described_at.empty()) continue;
    if (field.is_repeated()) {
      help.path += "[]";
      help.is_inside_list = true;
    }
    Append(*field.message_type(), help, described, settings);
  }
}

}  // namespace

std::string SettingHelp::flag() const {
  const bool is_own =
      field->message_type() == nullptr && !absl::StrContains(path, ".");
  return absl::StrCat(is_own ? "--" : "--set ",
                      absl::StrReplaceAll(path, {{"[]", "[I]"}}));
}

std::string SettingHelp::variable() const {
  return is_inside_list ? "" : EnvironmentName(path);
}

std::vector<SettingHelp> SettingsHelp(const Descriptor& job) {
  std::vector<SettingHelp> settings;
  Append(job, SettingHelp(), FindDescribed(job), &settings);
  return settings;
}

std::string SettingsHelpText() {
  std::string own;
  std::string inside;
  for (const SettingHelp& help : SettingsHelp()) {
    if (help.field->message_type() != nullptr) continue;
    const std::string flag = help.flag();
    const bool is_own = !absl::StartsWith(flag, "--set ");
    const std::string after =
        help.is_required
            ? absl::StrCat(" [for example ", help.example_json, "]")
        : help.default_json == "\"\""
            ? ""
            : absl::StrCat(" [", help.default_json, "]");
    absl::StrAppendFormat(is_own ? &own : &inside, "  %s\n      %s%s\n",
                          absl::StrCat(flag, is_own ? " VALUE" : "=VALUE"),
                          help.sentence, after);
  }
  return own + inside;
}

}  // namespace paramd
