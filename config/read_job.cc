#include "config/read_job.h"

#include <errno.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "config/cluster_sources.h"
#include "config/nearest_name.h"
#include "config/setting.h"
#include "config/stages.h"

namespace paramd {
namespace {

// Reads at most one byte more than is allowed. False, with `error` set.
bool ReadFile(const std::string& path, std::string* text, std::string* error) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rb"),
                                                   &fclose);
  if (file == nullptr) {
    *error = absl::StrCat("can't be opened: ", strerror(errno));
    return false;
  }
  text->resize(JsonLimits().most_bytes + 1);
  text->resize(fread(text->data(), 1, text->size(), file.get()));
  if (ferror(file.get()) != 0) {
    *error = absl::StrCat("can't be read: ", strerror(errno));
    return false;
  }
  return true;
}

void ReadJobFile(const std::string& path,
                 const absl::optional<std::string>& content,
                 SettingReader* reader, Mistakes* mistakes,
                 v1::JobConfig* config) {
  std::string text = content.value_or("");
  std::string error;
  if (!content.has_value() && !ReadFile(path, &text, &error)) {
    mistakes->Add({path, 0}, "", error);
    return;
  }
  JsonSource source = {path};
  // What it has of these may stand where it is broken.
  for (const std::string& secret : SecretNames(*config->GetDescriptor())) {
    source.is_quoted &= !absl::StrContains(text, secret);
  }
  absl::optional<JsonValue> value = ParseJson(text, source, {}, mistakes);
  if (!value.has_value()) return;
  // Editors look there for the schema.
  const auto is_schema = [](const JsonMember& member) {
    return member.name == "$schema";
  };
  std::vector<JsonMember>& members = value->members;
  members.erase(std::remove_if(members.begin(), members.end(), is_schema),
                members.end());
  reader->ReadMessage(*value, source, "", config);
}

// Whether a flag or variable is about the stages, which are chosen from before
// the others are read.
bool IsOfStages(absl::string_view path) {
  return absl::ConsumePrefix(&path, "stages") &&
         (path.empty() || path[0] == '.' || path[0] == '[');
}

// Settings inside others have no flag of their own.
std::string FlagOf(absl::string_view path) {
  const bool is_inside = path.find_first_of(".[") != absl::string_view::npos;
  return is_inside ? "--set" : absl::StrCat("--", Excerpt(path));
}

}  // namespace

std::string ReadVariables(const JobSources& sources, bool of_stages,
                          SettingReader* reader, v1::JobConfig* config) {
  std::map<std::string, std::string> paths;
  for (const std::string& path : SettingPaths(*config->GetDescriptor())) {
    paths.emplace(EnvironmentName(path), path);
  }
  std::vector<std::string> unknown;
  // Sorted: a parent ("PARAMD_CHECKPOINT") comes before what it holds.
  Variables variables = sources.environment;
  absl::c_sort(variables);
  for (const auto& [name, value] : variables) {
    if (!absl::StartsWith(name, "PARAMD_")) continue;
    const auto path = paths.find(name);
    if (path != paths.end()) {
      if (IsOfStages(path->second) != of_stages) continue;
      reader->Assign(path->second, value, {name, false}, config);
    } else if (!absl::c_linear_search(sources.other_variables, name) &&
               !absl::c_linear_search(ClusterVariables(), name)) {
      unknown.push_back(Excerpt(name));
    }
  }
  if (unknown.empty()) return "";
  return absl::StrCat("ignored environment variables that are no settings: ",
                      absl::StrJoin(unknown, ", "));
}

void ReadFlags(const JobSources& sources, bool of_stages, SettingReader* reader,
               v1::JobConfig* config) {
  for (const auto& [path, value] : sources.settings) {
    if (IsOfStages(path) != of_stages) continue;
    reader->Assign(path, value, {FlagOf(path), false}, config);
  }
}

absl::optional<int> ChooseStage(const JobSources& sources,
                                absl::optional<int> number,
                                const v1::JobConfig& config,
                                const SettingReader& reader,
                                Mistakes* mistakes) {
  if (mistakes->HasUnder("stages")) return absl::nullopt;
  if (number.has_value()) return number;
  const Place flag = {"--stage", 0};
  std::vector<std::string> names;
  for (const v1::Stage& stage : config.stages()) names.push_back(stage.name());
  if (names.empty()) {
    if (!sources.stage.has_value()) return -1;
    mistakes->Add(flag, "", "the job has no stages; leave it out");
  } else if (!sources.stage.has_value()) {
    mistakes->Add(reader.PlaceOf("stages"), "stages",
                  absl::StrCat("this is done with one of them; choose it by "
                               "--stage: ",
                               absl::StrJoin(names, ", ")));
  } else {
    const auto found = absl::c_find(names, *sources.stage);
    if (found != names.end()) return static_cast<int>(found - names.begin());
    mistakes->Add(flag, "",
                  absl::StrCat("there is no stage '", Excerpt(*sources.stage),
                               "'", NearestNameHint(*sources.stage, names)));
  }
  return absl::nullopt;
}

bool ReadFileAndStages(const JobSources& sources, SettingReader* reader,
                       Mistakes* mistakes, v1::JobConfig* config) {
  if (sources.file.has_value()) {
    ReadJobFile(*sources.file, sources.text, reader, mistakes, config);
    // Of a file that could not be read everything would be missing.
    if (mistakes->HasAt("")) return false;
  }
  ReadVariables(sources, /*of_stages=*/true, reader, config);
  ReadFlags(sources, /*of_stages=*/true, reader, config);
  CheckStages(reader, mistakes, config);
  return true;
}

}  // namespace paramd
