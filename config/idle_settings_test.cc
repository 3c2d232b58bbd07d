#include "config/idle_settings.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "config/job_config.h"
#include "config/testing/job_text.h"

namespace paramd {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

std::string WarningOf(Settings settings) {
  JobSources sources = From(kJob);
  sources.settings = std::move(settings);
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? job->warning : "";
}

TEST(IdleSettingsTest, WhatDoesNothingIsNamedWithWhatItBelongsTo) {
  const std::pair<std::pair<std::string, std::string>, std::string> kIdle[] = {
      {{"optimizer.decay_steps", "100"}, "a schedule that falls"},
      {{"optimizer.decay_factor", "0.5"}, "the schedules step and exponential"},
      {{"optimizer.final_factor", "0.1"},
       "the schedules polynomial and cosine"},
      {{"optimizer.power", "2"}, "the schedule polynomial"},
      {{"optimizer.no_decay", "*/bias"}, "weight decay"},
      {{"model.top_k", "3"}, "the metrics top_k and recall_at_k"},
      {{"pipeline.schedule", "gpipe"},
       "pipeline.stages or micro_batches above 1"},
      {{"all_reduce.rejoin_timeout_ms", "1000"},
       "strategy multi_worker_mirrored"},
      {{"all_reduce.fewest_workers", "2"}, "strategy multi_worker_mirrored"},
  };
  for (const auto& [setting, belongs_to] : kIdle) {
    EXPECT_EQ(WarningOf({{"optimizer.schedule", "constant"},
                         {"model.metrics", "accuracy"},
                         setting}),
              "settings that do nothing here: " + setting.first +
                  ", which belongs to " + belongs_to);
  }
}

TEST(IdleSettingsTest, BesideWhatTheyBelongToTheyAreSettings) {
  EXPECT_EQ(WarningOf({}), "");
  EXPECT_EQ(WarningOf({{"optimizer.schedule", "polynomial"},
                       {"optimizer.decay_steps", "100"},
                       {"optimizer.final_factor", "0.1"},
                       {"optimizer.power", "2"}}),
            "");
  EXPECT_EQ(WarningOf({{"pipeline.schedule", "gpipe"},
                       {"pipeline.micro_batches", "4"}}),
            "");
  EXPECT_EQ(WarningOf({{"max_joined_workers", "2"}}), "");
  EXPECT_EQ(WarningOf({{"strategy", "mirrored"}, {"max_joined_workers", "2"}}),
            "settings that do nothing here: max_joined_workers, which belongs "
            "to strategy parameter_server");
  EXPECT_EQ(WarningOf({{"optimizer.weight_decay", "0.1"},
                       {"optimizer.no_decay", "*/bias"}}),
            "");
  EXPECT_EQ(WarningOf({{"model.metrics", "[\"top_k\"]"}, {"model.top_k", "3"}}),
            "");
}

TEST(IdleSettingsTest, TheyAreNamedBesideVariablesThatAreNoSettings) {
  JobSources sources = From(kJob);
  sources.environment = {{"PARAMD_PORT", "1"}};
  sources.settings = {{"optimizer.power", "2"}, {"model.top_k", "3"}};
  EXPECT_EQ(LoadJob(sources)->warning,
            "ignored environment variables that are no settings: PARAMD_PORT; "
            "settings that do nothing here: optimizer.power, which belongs to "
            "the schedule polynomial; model.top_k, which belongs to the "
            "metrics top_k and recall_at_k");
}

}  // namespace
}  // namespace paramd
