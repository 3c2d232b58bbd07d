#include "cli/commands/settings_json.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "config/json_value.h"
#include "config/setting_value.h"

namespace paramd {
namespace {

using SettingJson = nlohmann::ordered_json;

constexpr size_t kLineColumns = 96;

// What "layers[1].dense" names below `root`, made where it is not there.
SettingJson* PlaceOf(absl::string_view path, SettingJson* root) {
  SettingJson* place = root;
  for (const absl::string_view part : absl::StrSplit(path, '.')) {
    const std::vector<absl::string_view> names =
        absl::StrSplit(part, absl::MaxSplits('[', 1));
    place = &(*place)[std::string(names[0])];
    size_t index = 0;
    if (names.size() == 2 &&
        absl::SimpleAtoi(absl::StripSuffix(names[1], "]"), &index)) {
      place = &(*place)[index];
    }
    if (place->is_null()) *place = SettingJson::object();
  }
  return place;
}

void SetIn(const SettingValue& value, SettingJson* root) {
  const size_t dot = value.path.rfind('.');
  const bool is_at_top = dot == std::string::npos;
  SettingJson* const around =
      is_at_top ? root
                : PlaceOf(absl::string_view(value.path).substr(0, dot), root);
  // An empty message stands for itself.
  if (value.is_default) return;
  const std::string name = is_at_top ? value.path : value.path.substr(dot + 1);
  *PlaceOf(name, around) = SettingJson::parse(value.json, nullptr,
                                              /*allow_exceptions=*/false);
}

std::string InOneLine(const SettingJson& json) {
  if (json.empty() || !json.is_structured()) {
    return json.dump(-1, ' ', /*ensure_ascii=*/true,
                     SettingJson::error_handler_t::replace);
  }
  const bool is_object = json.is_object();
  std::string text = is_object ? "{" : "[";
  for (auto it = json.begin(); it != json.end(); ++it) {
    absl::StrAppend(&text, it == json.begin() ? "" : ", ",
                    is_object ? absl::StrCat(QuoteJson(it.key()), ": ") : "",
                    InOneLine(*it));
  }
  return absl::StrCat(text, is_object ? "}" : "]");
}

// `column`: where it begins.
std::string InLines(const SettingJson& json, size_t indent, size_t column) {
  const std::string line = InOneLine(json);
  if (json.empty() || !json.is_structured() ||
      column + line.size() <= kLineColumns) {
    return line;
  }
  const bool is_object = json.is_object();
  const std::string margin(indent + 2, ' ');
  std::string text = is_object ? "{" : "[";
  for (auto it = json.begin(); it != json.end(); ++it) {
    const std::string name =
        is_object ? absl::StrCat(QuoteJson(it.key()), ": ") : "";
    absl::StrAppend(&text, it == json.begin() ? "\n" : ",\n", margin, name,
                    InLines(*it, indent + 2, indent + 2 + name.size()));
  }
  return absl::StrCat(text, "\n", std::string(indent, ' '),
                      is_object ? "}" : "]");
}

}  // namespace

std::string SettingsJson(absl::string_view key,
                         const google::protobuf::Message& settings) {
  SettingJson json = SettingJson::object();
  for (const SettingValue& value : ValuesOf(settings)) {
    SetIn(value, &json);
  }
  SettingJson all = SettingJson::object();
  all[std::string(key)] = std::move(json);
  return absl::StrCat(InLines(all, 0, 0), "\n");
}

std::string JobJson(const v1::JobConfig& job) {
  SettingJson json = SettingJson::object();
  for (const SettingValue& value : ValuesOf(job)) {
    // A message that every job has is left out with what it has.
    if (value.is_secret || (value.is_default && value.part_of.empty()))
      continue;
    SetIn(value, &json);
  }
  return absl::StrCat(InLines(json, 0, 0), "\n");
}

}  // namespace paramd
