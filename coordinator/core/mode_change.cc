#include "coordinator/core/mode_change.h"

#include "absl/strings/str_cat.h"

#include "config/consistency.h"
#include "proto/refusal.h"

namespace paramd {

std::string ModeChange::Name() const {
  return absl::StrCat("from ", StalenessText(from_), " to ",
                      StalenessText(to_));
}

void ModeChange::BeginStop(const v1::ConfigurationVersion& configuration) {
  stopped_by_ = configuration;
  stage_ = Stage::kStopping;
}

void ModeChange::Heard(const v1::HeartbeatRequest& heartbeat) {
  const v1::Header& header = heartbeat.header();
  if (stage_ != Stage::kStopping || !heartbeat.stop() ||
      !heartbeat.cut().acknowledged() || header.configuration() < stopped_by_) {
    return;
  }
  cuts_[header.worker()] = heartbeat.cut();
}

}  // namespace paramd
