#include "coordinator/core/running_settings.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "config/setting.h"
#include "proto/refusal.h"
#include "proto/running_setting.h"

namespace paramd {
namespace {

using ::google::protobuf::FieldDescriptor;

constexpr absl::Duration kSetAgainIn = absl::Milliseconds(200);
constexpr char kStaleness[] = "staleness";
constexpr char kLogLevel[] = "log_level";
constexpr char kEverySteps[] = "checkpoint.every_steps";
constexpr char kEverySeconds[] = "checkpoint.every_seconds";
constexpr char kRebalance[] = "rebalance";

// Where the table of settings has it.
const FieldDescriptor& FieldOf(absl::string_view key) {
  if (key == kLogLevel || key == kRebalance) {
    return *v1::JobConfig::descriptor()->FindFieldByName(std::string(key));
  }
  return *v1::CheckpointConfig::descriptor()->FindFieldByName(
      key == kEverySteps ? "every_steps" : "every_seconds");
}

std::string InJob(absl::string_view key, const v1::JobConfig& job) {
  if (key == kEverySteps) return absl::StrCat(job.checkpoint().every_steps());
  if (key == kEverySeconds) {
    return absl::StrCat(job.checkpoint().every_seconds());
  }
  if (key == kRebalance) return job.rebalance() ? "true" : "false";
  return EnumName(*v1::JobConfig::LogLevel_descriptor()->FindValueByNumber(
      job.log_level()));
}

// OK if the job file would take it, too; else a sentence with the bounds.
absl::Status CheckValue(const std::string& key, const std::string& value,
                        const v1::JobConfig& job) {
  const FieldDescriptor& field = FieldOf(key);
  std::string needs;
  if (key == kRebalance) {
    if (value == "false" || (value == "true" && job.scalable())) {
      return absl::OkStatus();
    }
    needs = value == "true" ? "a job that was started with scalable"
                            : "true or false";
  } else if (field.enum_type() != nullptr) {
    const std::vector<std::string> names = EnumNames(*field.enum_type());
    if (std::find(names.begin(), names.end(), value) != names.end()) {
      return absl::OkStatus();
    }
    needs = absl::StrCat("one of ", absl::StrJoin(names, ", "));
  } else {
    uint64_t number = 0;
    if (absl::SimpleAtoi(value, &number) &&
        BrokenBound(field, static_cast<double>(number)).empty()) {
      return absl::OkStatus();
    }
    needs = absl::StrCat("a whole number, at least 0, ", BoundsOf(field));
  }
  return Refuse(v1::Refusal::INVALID, key,
                absl::StrCat(key, " needs ", needs, "; found \"", value, "\""));
}

absl::Status NotYet(const std::string& whom) {
  return RefuseForNow(v1::Refusal::RETRY, whom, kSetAgainIn,
                      absl::StrCat("waiting for ", whom));
}

}  // namespace

bool RunningSettings::Has(absl::string_view key) {
  return key == kLogLevel || key == kEverySteps || key == kEverySeconds ||
         key == kRebalance;
}

std::string RunningSettings::CannotSentence(absl::string_view key) {
  return absl::StrCat("'", key,
                      "' can't be changed while the job runs; 'staleness', "
                      "'learning_rate_scale', '",
                      kEverySteps, "', '", kEverySeconds, "', '", kLogLevel,
                      "' and '", kRebalance, "' can");
}

void RunningSettings::Read(const v1::LogEntry& entry) {
  for (const v1::SettingChange& change : entry.configuration().settings()) {
    // Others have entries of their own; what was made before one may be
    // written after it.
    if (change.key() == kStaleness) {
      logged_[change.key()] = change;
    } else {
      logged_.emplace(change.key(), change);
    }
  }
  if (entry.has_setting()) logged_[entry.setting().key()] = entry.setting();
  if (entry.has_learning_rate_scale() && entry.has_origin()) {
    v1::SettingChange& change = logged_["learning_rate_scale"];
    change.set_key("learning_rate_scale");
    change.set_value(absl::StrCat(entry.learning_rate_scale()));
    *change.mutable_origin() = entry.origin();
  }
}

void RunningSettings::Fill(v1::Configuration* configuration) const {
  for (const auto& [key, change] : logged_) {
    SetRunningSetting(change, configuration);
  }
}

absl::Status RunningSettings::CheckMaySet(const JobView& job) const {
  if (job.phase >= JobPhase::kTellingEnd) {
    return Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished");
  }
  if (change_.has_value()) {
    return NotYet(absl::StrCat(change_->setting.key(), " to become ",
                               change_->setting.value()));
  }
  if (job.phase < JobPhase::kRunning) return NotYet(job.waiting_for());
  return absl::OkStatus();
}

void RunningSettings::OnSet(const Message& message,
                            const v1::SetRequest& request, Turn* turn) {
  const JobView& job = turn->job;
  absl::Status may =
      CheckValue(request.key(), request.value(), job.options.job);
  if (may.ok()) may = CheckMaySet(job);
  if (!may.ok()) {
    turn->out->Refuse(message.call, may);
    return;
  }
  Change change;
  change.call = message.call;
  change.setting.set_key(request.key());
  change.setting.set_value(request.value());
  *change.setting.mutable_origin() = request.origin();
  change.old_value = RunningSetting(job.configuration, request.key());
  if (change.old_value.empty()) {
    change.old_value = InJob(request.key(), job.options.job);
  }
  v1::LogEntry entry;
  *entry.mutable_setting() = change.setting;
  change_ = std::move(change);
  turn->Append(std::move(entry), Then(this, &RunningSettings::OnLogged));
}

void RunningSettings::OnLogged(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  const v1::SettingChange& setting = change_->setting;
  logged_[setting.key()] = setting;
  SetRunningSetting(
      setting, turn->live->Change({v1::Configuration::kSettingsFieldNumber}));
  turn->live->NextVersion();
  change_->is_logged = true;
  change_->version = turn->job.configuration.version();
  turn->out->Note(absl::StrCat("an operator changed ", setting.key(), " from ",
                               change_->old_value, " to ", setting.value()));
  turn->Raise(SettingChanged{setting});
}

void RunningSettings::Advance(Turn* turn) {
  const JobView& job = turn->job;
  if (!change_.has_value() || !change_->is_logged) return;
  if (job.phase < JobPhase::kTellingEnd &&
      !job.EveryServerHas(change_->version)) {
    return;
  }
  auto reply = std::make_unique<v1::SetReply>();
  *reply->mutable_configuration() = change_->version;
  reply->set_old_value(change_->old_value);
  reply->set_value(change_->setting.value());
  turn->out->Reply(change_->call, std::move(reply));
  change_.reset();
}

}  // namespace paramd
