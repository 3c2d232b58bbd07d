#ifndef PARAMD_CONFIG_SERVER_SETTINGS_H_
#define PARAMD_CONFIG_SERVER_SETTINGS_H_

#include <cstdint>

#include "absl/time/time.h"

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// What a server needs of the job's settings. It reads no job file: they reach
// it with the configuration. Before the first one, and where a coordinator of
// an earlier version does not send them, each has its default.
struct ServerSettings {
  // Sync mode: of gradients that wait for others.
  uint64_t sync_park_bytes = 256 << 20;
  // Gradients so many times as large as usual are refused; 0: none are.
  double spike_factor = 0;
  // A server that drains does so without a coordinator that was silent for
  // longer; readers wait for no worker that was.
  absl::Duration lease = absl::Seconds(10);
  // How long a pull that is too far ahead, and Written, is kept before it is
  // answered with WAIT.
  absl::Duration park_timeout = absl::Seconds(5);
  // How long a finished server stays for those who have not heard of it.
  absl::Duration finish_timeout = absl::Seconds(10);
};

// As the coordinator puts them into the configuration.
v1::ServerSettings ServerSettingsOf(const v1::JobConfig& job);

// As a server finds them there.
ServerSettings ServerSettingsIn(const v1::Configuration& configuration);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SERVER_SETTINGS_H_
