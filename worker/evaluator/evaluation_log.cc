#include "worker/evaluator/evaluation_log.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "proto/message_json.h"
#include "proto/metric_values.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

}  // namespace

absl::StatusOr<EvaluationLog> EvaluationLog::Open(std::string path) {
  EvaluationLog log(std::move(path));
  auto text = ReadWholeFile(log.path_, kMostBytes);
  if (absl::IsNotFound(text.status())) return log;
  RETURN_IF_ERROR(text.status());
  log.text_ = *std::move(text);
  if (!log.text_.empty() && !absl::EndsWith(log.text_, "\n")) {
    log.text_ += '\n';
  }
  for (const absl::string_view line : absl::StrSplit(log.text_, '\n')) {
    log.Take(std::string(line));
  }
  return log;
}

void EvaluationLog::Take(const std::string& line) {
  const auto json =
      nlohmann::json::parse(line, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const auto number = json.find("number");
  const auto step = json.find("step");
  if (number == json.end() || !number->is_string()) return;
  numbers_.insert(*number->get_ptr<const std::string*>());
  if (step == json.end() || !step->is_number_unsigned()) return;
  last_step_ = *step->get_ptr<const uint64_t*>();
}

bool EvaluationLog::Has(const v1::SnapshotNumber& number) const {
  return numbers_.count(VersionName(number)) != 0;
}

absl::Status EvaluationLog::Append(const Line& line) {
  nlohmann::json json;
  for (const auto& [name, value] : MetricValues(line.evaluation)) {
    json[name] = value;
  }
  json["number"] = VersionName(line.number);
  json["step"] = line.step;
  json["examples"] = line.evaluation.examples();
  if (line.evaluation.labels() > 0) {
    json["labels"] = line.evaluation.labels();
    json["correct"] = line.evaluation.correct();
  }
  json["loss"] = line.evaluation.loss();
  json["seconds"] = line.seconds;
  for (const v1::EvaluatedSlice& slice : line.evaluation.slices()) {
    nlohmann::json& one = json["slices"].emplace_back();
    for (const auto& [name, value] : MetricValues(slice)) one[name] = value;
    one["feature"] = slice.feature();
    one["value"] = slice.value();
    one["examples"] = slice.examples();
    one["loss"] = slice.loss();
  }
  for (const auto& buckets : line.evaluation.calibration_buckets()) {
    ASSIGN_OR_RETURN(const std::string text, MessageJson(buckets));
    json["calibration_buckets"].push_back(nlohmann::json::parse(text));
  }
  const std::string text = absl::StrCat(text_, json.dump(), "\n");
  const std::string temporary = absl::StrCat(path_, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(absl::string_view(text)));
  RETURN_IF_ERROR(file->FinishAs(path_));
  text_ = text;
  numbers_.insert(VersionName(line.number));
  last_step_ = line.step;
  return absl::OkStatus();
}

}  // namespace paramd
