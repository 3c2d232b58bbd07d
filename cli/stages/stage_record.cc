#include "cli/stages/stage_record.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "config/setting_changes.h"
#include "config/setting_value.h"
#include "config/stages.h"

namespace paramd {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = 16 << 20;

std::string PathOf(const std::string& directory) {
  return absl::StrCat(directory, "/stage.json");
}

// JSON has no other numbers.
Json NumberOrNull(double number) {
  return std::isfinite(number) ? Json(number) : Json();
}

template <typename T>
Json OrNull(const absl::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

template <typename T>
absl::optional<T> Optional(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return absl::nullopt;
  return found->get<T>();
}

StageRecord RecordOf(const Json& json) {
  StageRecord record;
  record.name = json.at("name").get<std::string>();
  record.kind = json.at("kind").get<std::string>();
  record.from = Optional<std::string>(json, "from").value_or("");
  record.settings = json.at("settings").get<std::vector<std::string>>();
  record.result = json.at("result").get<std::string>();
  record.step = json.at("step").get<uint64_t>();
  for (const auto& [name, value] : json.at("metrics").items()) {
    record.metrics.emplace_back(
        name, value.is_null() ? std::nan("") : value.get<double>());
  }
  record.examples = json.at("examples").get<uint64_t>();
  record.bytes = json.at("bytes").get<uint64_t>();
  record.compressed_bytes = Optional<uint64_t>(json, "compressed_bytes");
  record.zeros = Optional<double>(json, "zeros");
  record.examples_per_second = Optional<double>(json, "examples_per_second");
  return record;
}

}  // namespace

absl::optional<double> StageRecord::Metric(absl::string_view name) const {
  for (const auto& [metric, value] : metrics) {
    if (metric == name) return value;
  }
  return absl::nullopt;
}

std::vector<std::string> StageLines(const LoadedJob& stage) {
  std::vector<std::string> lines = RecordedSettings(stage.as_stage);
  for (const SettingValue& value : ValuesOf(stage.stage)) {
    lines.push_back(absl::StrCat("stage.", value.path, "=", value.json));
  }
  return lines;
}

Json JsonOf(const StageRecord& record) {
  Json json;
  json["name"] = record.name;
  json["kind"] = record.kind;
  json["from"] = record.from.empty() ? Json() : Json(record.from);
  json["result"] = record.result;
  json["step"] = record.step;
  json["examples"] = record.examples;
  Json& metrics = json["metrics"] = Json::object();
  for (const auto& [name, value] : record.metrics) {
    metrics[name] = NumberOrNull(value);
  }
  json["bytes"] = record.bytes;
  json["compressed_bytes"] = OrNull(record.compressed_bytes);
  json["zeros"] = OrNull(record.zeros);
  json["examples_per_second"] = OrNull(record.examples_per_second);
  json["settings"] = record.settings;
  return json;
}

absl::StatusOr<StageRecord> ReadStageRecord(const std::string& directory) {
  const std::string path = PathOf(directory);
  if (access(path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("there is no '", path, "'"));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMostBytes));
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat("'", path,
                   "' is not what a finished stage has left; remove "
                   "it, and the stage is measured again"));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return damaged;
  try {
    return RecordOf(json);
  } catch (const Json::exception&) {
    return damaged;
  }
}

absl::Status WriteStageRecord(const std::string& directory,
                              const StageRecord& record) {
  RETURN_IF_ERROR(MakeDirectories(directory));
  return ReplaceFile(PathOf(directory),
                     absl::StrCat(JsonOf(record).dump(2), "\n"));
}

absl::Status ReplaceFile(const std::string& path, absl::string_view content) {
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(content));
  return file->FinishAs(path);
}

}  // namespace paramd
