#include "coordinator/core/rate_scale.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/strategy.h"
#include "proto/refusal.h"
#include "proto/running_setting.h"

namespace paramd {
namespace {

constexpr absl::Duration kSetAgain = absl::Milliseconds(200);
// As of a rate factor.
constexpr double kMostScale = 1e6;

absl::Status NoScale(absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, RateScale::kKey, sentence);
}

absl::StatusOr<double> ParseScale(const std::string& value) {
  double scale = 0;
  if (absl::SimpleAtod(value, &scale) && scale >= 0 && scale <= kMostScale) {
    return scale;
  }
  return NoScale(absl::StrCat(RateScale::kKey,
                              " needs a number from 0 to 1000000; found \"",
                              value, "\""));
}

// Each copy of the variables is a job of its own, which hears of no other's
// settings.
absl::Status CheckHasOneOptimizer(const v1::JobConfig& job) {
  const bool has_copies =
      job.strategy() == v1::JobConfig::MIRRORED
          ? ReplicasOf(job) > 1
          : job.strategy() == v1::JobConfig::MULTI_WORKER_MIRRORED;
  if (!has_copies) return absl::OkStatus();
  return NoScale(absl::StrCat(
      RateScale::kKey, " can't be changed with strategy \"",
      StrategyName(job.strategy()),
      "\", under which each copy of the variables has its own optimizer; "
      "\"parameter_server\" and \"central_storage\" have one"));
}

absl::Status SetAgain(const std::string& whom) {
  return RefuseForNow(v1::Refusal::RETRY, whom, kSetAgain,
                      absl::StrCat("waiting for ", whom));
}

}  // namespace

absl::Status RateScale::CheckMaySet(const JobView& job) const {
  if (job.phase >= JobPhase::kTellingEnd) {
    return Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished");
  }
  if (change_.has_value()) {
    return SetAgain(absl::StrCat(kKey, " to become ", change_->scale));
  }
  if (job.phase < JobPhase::kRunning) return SetAgain(job.waiting_for());
  return absl::OkStatus();
}

void RateScale::OnSet(const Message& message, const v1::SetRequest& request,
                      Turn* turn) {
  const JobView& job = turn->job;
  absl::Status may = CheckHasOneOptimizer(job.options.job);
  const auto scale = ParseScale(request.value());
  if (may.ok()) may = scale.status();
  if (may.ok()) may = CheckMaySet(job);
  if (!may.ok()) {
    turn->out->Refuse(message.call, may);
    return;
  }
  change_ = Change{.call = message.call,
                   .scale = *scale,
                   .old_scale = RateScaleOf(job.configuration),
                   .origin = request.origin()};
  if (*scale == change_->old_scale) {
    // Servers may not have it yet.
    change_->stage = Stage::kTelling;
    change_->version = job.configuration.version();
    return Advance(turn);
  }
  v1::LogEntry entry;
  entry.set_learning_rate_scale(*scale);
  if (request.has_origin()) *entry.mutable_origin() = request.origin();
  turn->Append(std::move(entry), Then(this, &RateScale::OnLogged));
}

void RateScale::OnLogged(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  logged_ = change_->scale;
  change_->stage = Stage::kLogged;
  Advance(turn);
}

void RateScale::Advance(Turn* turn) {
  const JobView& job = turn->job;
  if (!HoldsSteps()) return;
  if (change_->stage == Stage::kLogged) {
    if (job.IsSync() && job.phase == JobPhase::kRunning &&
        !job.progress.IsBetweenSteps()) {
      return;
    }
    v1::Configuration* const configuration =
        turn->live->Change({v1::Configuration::kLearningRateScaleFieldNumber,
                            v1::Configuration::kSettingsFieldNumber});
    configuration->set_learning_rate_scale(change_->scale);
    if (!change_->origin.who().empty()) {
      v1::SettingChange setting;
      setting.set_key(kKey);
      setting.set_value(absl::StrCat(change_->scale));
      *setting.mutable_origin() = change_->origin;
      SetRunningSetting(setting, configuration);
    }
    turn->live->NextVersion();
    change_->version = job.configuration.version();
    change_->stage = Stage::kTelling;
    turn->out->Note(
        absl::StrCat("learning rates are multiplied by ", change_->scale,
                     " from now on, after step ", job.progress.global_step()),
        {{"step", job.progress.global_step()}});
  }
  if (job.phase < JobPhase::kTellingEnd &&
      !job.EveryServerHas(change_->version)) {
    return;
  }
  auto reply = std::make_unique<v1::SetReply>();
  *reply->mutable_configuration() = change_->version;
  reply->set_old_value(absl::StrCat(change_->old_scale));
  reply->set_value(absl::StrCat(change_->scale));
  turn->out->Reply(change_->call, std::move(reply));
  change_.reset();
}

}  // namespace paramd
