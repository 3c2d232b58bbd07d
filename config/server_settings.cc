#include "config/server_settings.h"

namespace paramd {

// A setting that the job leaves out is left out here too.
v1::ServerSettings ServerSettingsOf(const v1::JobConfig& job) {
  v1::ServerSettings settings;
  if (job.has_sync_park_bytes()) {
    settings.set_sync_park_bytes(job.sync_park_bytes());
  }
  if (job.has_spike_factor()) settings.set_spike_factor(job.spike_factor());
  if (job.has_lease_ms()) settings.set_lease_ms(job.lease_ms());
  if (job.has_park_timeout_ms()) {
    settings.set_park_timeout_ms(job.park_timeout_ms());
  }
  if (job.has_finish_timeout_ms()) {
    settings.set_finish_timeout_ms(job.finish_timeout_ms());
  }
  return settings;
}

ServerSettings ServerSettingsIn(const v1::Configuration& configuration) {
  const v1::ServerSettings& told = configuration.server_settings();
  ServerSettings settings;
  if (told.has_sync_park_bytes()) {
    settings.sync_park_bytes = told.sync_park_bytes();
  }
  if (told.has_spike_factor()) settings.spike_factor = told.spike_factor();
  if (told.has_lease_ms()) {
    settings.lease = absl::Milliseconds(told.lease_ms());
  }
  if (told.has_park_timeout_ms()) {
    settings.park_timeout = absl::Milliseconds(told.park_timeout_ms());
  }
  if (told.has_finish_timeout_ms()) {
    settings.finish_timeout = absl::Milliseconds(told.finish_timeout_ms());
  }
  return settings;
}

}  // namespace paramd
