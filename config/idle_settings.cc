#include "config/idle_settings.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/strategy.h"

namespace paramd {
namespace {

using Optimizer = v1::OptimizerConfig;

bool HasSchedule(const v1::JobConfig& job,
                 std::initializer_list<Optimizer::Schedule> schedules) {
  return absl::c_linear_search(schedules, job.optimizer().schedule());
}

bool Decays(const Optimizer& optimizer) {
  return optimizer.has_adamw() || optimizer.has_lamb() ||
         optimizer.weight_decay() > 0 || !optimizer.groups().empty();
}

bool Ranks(const v1::ModelConfig& model) {
  return model.custom() || absl::c_any_of(model.metrics(), [](int metric) {
           return metric == v1::ModelConfig::TOP_K ||
                  metric == v1::ModelConfig::RECALL_AT_K;
         });
}

bool HasRounds(const v1::JobConfig& job) {
  return job.strategy() == v1::JobConfig::MULTI_WORKER_MIRRORED;
}

struct Setting {
  const char* path;
  const char* belongs_to;
  bool (*has_effect)(const v1::JobConfig& job);
};

constexpr Setting kSettings[] = {
    {"optimizer.decay_steps", "a schedule that falls",
     [](const v1::JobConfig& job) {
       return !HasSchedule(
           job, {Optimizer::SCHEDULE_UNSPECIFIED, Optimizer::CONSTANT});
     }},
    {"optimizer.decay_factor", "the schedules step and exponential",
     [](const v1::JobConfig& job) {
       return HasSchedule(job, {Optimizer::STEP, Optimizer::EXPONENTIAL});
     }},
    {"optimizer.final_factor", "the schedules polynomial and cosine",
     [](const v1::JobConfig& job) {
       return HasSchedule(job, {Optimizer::POLYNOMIAL, Optimizer::COSINE});
     }},
    {"optimizer.power", "the schedule polynomial",
     [](const v1::JobConfig& job) {
       return HasSchedule(job, {Optimizer::POLYNOMIAL});
     }},
    {"optimizer.no_decay", "weight decay",
     [](const v1::JobConfig& job) { return Decays(job.optimizer()); }},
    {"model.top_k", "the metrics top_k and recall_at_k",
     [](const v1::JobConfig& job) { return Ranks(job.model()); }},
    {"pipeline.schedule", "pipeline.stages or micro_batches above 1",
     IsPipelined},
    {"pipeline.begin_at", "pipeline.stages above 1",
     [](const v1::JobConfig& job) { return job.pipeline().stages() > 1; }},
    {"all_reduce.rejoin_timeout_ms", "strategy multi_worker_mirrored",
     HasRounds},
    {"all_reduce.fewest_workers", "strategy multi_worker_mirrored", HasRounds},
    {"max_joined_workers", "strategy parameter_server", UsesServers},
};

}  // namespace

std::string IdleSettings(const v1::JobConfig& config,
                         const SettingReader& reader) {
  std::vector<std::string> idle;
  for (const Setting& one : kSettings) {
    const bool is_given =
        KindOf(reader.PlaceOf(one.path)) != OriginKind::kDefault;
    if (!is_given || one.has_effect(config)) continue;
    idle.push_back(
        absl::StrCat(one.path, ", which belongs to ", one.belongs_to));
  }
  if (idle.empty()) return "";
  return absl::StrCat("settings that do nothing here: ",
                      absl::StrJoin(idle, "; "));
}

}  // namespace paramd
