#include "config/server_settings.h"

#include "gtest/gtest.h"

#include "config/mistakes.h"
#include "config/setting_reader.h"

namespace paramd {
namespace {

v1::Configuration Told(const v1::JobConfig& job) {
  v1::Configuration configuration;
  *configuration.mutable_server_settings() = ServerSettingsOf(job);
  return configuration;
}

TEST(ServerSettingsTest, WhatTheJobSaysReachesAServer) {
  v1::JobConfig job;
  job.set_sync_park_bytes(1 << 20);
  job.set_spike_factor(0.5);
  job.set_lease_ms(1500);
  job.set_park_timeout_ms(200);
  job.set_finish_timeout_ms(300);
  const ServerSettings settings = ServerSettingsIn(Told(job));
  EXPECT_EQ(settings.sync_park_bytes, 1u << 20);
  EXPECT_EQ(settings.spike_factor, 0.5);
  EXPECT_EQ(settings.lease, absl::Milliseconds(1500));
  EXPECT_EQ(settings.park_timeout, absl::Milliseconds(200));
  EXPECT_EQ(settings.finish_timeout, absl::Milliseconds(300));
}

// As of a coordinator of an earlier version, and of a log that it wrote.
TEST(ServerSettingsTest, WithoutThemEachHasTheDefaultOfTheJobFile) {
  v1::JobConfig job;
  Origins origins;
  Mistakes mistakes;
  SettingReader(&origins, &mistakes).FillDefaults(&job);
  const ServerSettings defaults = ServerSettingsIn(Told(job));
  const ServerSettings settings = ServerSettingsIn(v1::Configuration());
  EXPECT_EQ(settings.sync_park_bytes, defaults.sync_park_bytes);
  EXPECT_EQ(settings.spike_factor, defaults.spike_factor);
  EXPECT_EQ(settings.lease, defaults.lease);
  EXPECT_EQ(settings.park_timeout, defaults.park_timeout);
  EXPECT_EQ(settings.finish_timeout, defaults.finish_timeout);
  EXPECT_EQ(ServerSettingsOf(job).sync_park_bytes(), settings.sync_park_bytes);
}

}  // namespace
}  // namespace paramd
