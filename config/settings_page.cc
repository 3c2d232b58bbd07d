#include "config/settings_page.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "config/settings_help.h"

namespace paramd {
namespace {

std::string Code(absl::string_view text) {
  return text.empty() ? "" : absl::StrCat("`", text, "`");
}

// "model.layers[]" for "model.layers[].dense"; empty for the top level.
std::string AroundOf(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string KeyOf(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string DefaultOf(const SettingHelp& help) {
  absl::string_view beside = help.required_unless;
  if (absl::ConsumePrefix(&beside, "../")) {
    return absl::StrCat("must be given, unless ", Code(std::string(beside)),
                        " is beside ", Code(KeyOf(AroundOf(help.path))));
  }
  if (!help.required_unless.empty()) {
    return absl::StrCat(
        "must be given, unless ",
        Code(absl::StrReplaceAll(help.required_unless, {{",", "` or `"}})));
  }
  if (help.is_required) return "must be given";
  return help.default_json.empty() ? "" : Code(help.default_json);
}

std::string Row(const SettingHelp& help) {
  return absl::StrCat("| `", KeyOf(help.path), "` | ", help.sentence,
                      help.is_alternative ? " *(one of these)*" : "",
                      help.is_local ? " *(local)*"
                      : help.may_change && help.field->message_type() == nullptr
                          ? " *(may change)*"
                          : "",
                      " | ", help.type, help.bounds.empty() ? "" : ", ",
                      help.bounds, help.described_at.empty() ? "" : ", as ",
                      Code(help.described_at), " | ", DefaultOf(help), " | ",
                      Code(help.example_json), " |\n");
}

// The table of what lies directly in `around`.
std::string Table(const std::string& around,
                  const std::vector<SettingHelp>& settings) {
  std::string rows;
  for (const SettingHelp& help : settings) {
    if (AroundOf(help.path) == around) rows += Row(help);
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "### ", around.empty() ? "Top level" : absl::StrCat("`", around, "`"),
      "\n\n| key | what it does | value | default | example |\n"
      "|---|---|---|---|---|\n",
      rows, "\n");
}

}  // namespace

std::string FillSettings(absl::string_view page,
                         const std::vector<SettingHelp>& settings) {
  std::string tables = Table("", settings);
  for (const SettingHelp& help : settings) {
    const std::string around =
        help.field->is_repeated() ? help.path + "[]" : help.path;
    tables += Table(around, settings);
  }
  while (absl::EndsWith(tables, "\n")) tables.pop_back();
  return absl::StrReplaceAll(page, {{"@settings@", tables}});
}

}  // namespace paramd
