#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "process/observe/metric_table.h"
#include "proto/metric_values.h"

namespace paramd::metric_table {
namespace {

void FillMembers(const Source& from, Samples* to) {
  std::map<std::pair<v1::TaskType, v1::Member::State>, int> counts;
  for (const v1::TaskType type : {v1::PS, v1::WORKER}) {
    for (const auto state : {v1::Member::AWAITED, v1::Member::STARTING,
                             v1::Member::ALIVE, v1::Member::LOST}) {
      counts[{type, state}] = 0;
    }
  }
  for (const v1::Member& member : from.job().members()) {
    if (!member.joined()) ++counts[{member.task().type(), member.state()}];
  }
  for (const auto& [key, count] : counts) {
    to->Add(
        count,
        {{"type", TypeName(key.first)},
         {"state", absl::AsciiStrToLower(v1::Member::State_Name(key.second))}});
  }
}

void FillSilence(const Source& from, Samples* to) {
  for (const v1::Member& member : from.job().members()) {
    if (!member.has_silent_ms()) continue;
    to->Add(Seconds(member.silent_ms()),
            {{"task", absl::StrCat(TypeName(member.task().type()), "-",
                                   member.task().index())}});
  }
}

// With replication: of each server whether its backup has everything.
void FillBackups(const Source& from, Samples* to) {
  for (const v1::Member& member : from.job().members()) {
    if (!member.has_peer()) continue;
    to->Add(member.backup_is_member() ? 1 : 0,
            {{"server", absl::StrCat("ps-", member.task().index())}});
  }
}

void FillBalance(const Source& from, Samples* to) {
  const v1::Balance& balance = from.job().balance();
  for (int ps = 0; ps < balance.processors_size(); ++ps) {
    to->Add(balance.processors(ps), {{"ps", absl::StrCat("ps-", ps)}});
  }
}

void FillAccuracy(const Source& from, Samples* to) {
  for (const auto& [name, value] : MetricValues(from.job().evaluation())) {
    if (name == "accuracy") to->Add(value);
  }
}

void FillEvaluation(const Source& from, Samples* to) {
  for (const auto& [name, value] : MetricValues(from.job().evaluation())) {
    to->Add(value, {{"metric", name}});
  }
}

void FillSlices(const Source& from, Samples* to) {
  for (const v1::EvaluatedSlice& slice : from.job().evaluation().slices()) {
    const auto add = [&](const std::string& metric, double value) {
      to->Add(value, {{"metric", metric},
                      {"feature", slice.feature()},
                      {"value", absl::StrCat(slice.value())}});
    };
    add("loss", slice.loss());
    for (const auto& [name, value] : MetricValues(slice)) add(name, value);
  }
}

void FillSliceExamples(const Source& from, Samples* to) {
  for (const v1::EvaluatedSlice& slice : from.job().evaluation().slices()) {
    to->Add(
        static_cast<double>(slice.examples()),
        {{"feature", slice.feature()}, {"value", absl::StrCat(slice.value())}});
  }
}

template <auto Figure>
void OfJob(const Source& from, Samples* to) {
  if (from.status.has_job()) {
    to->Add(static_cast<double>((from.job().*Figure)()));
  }
}

template <auto Figure>
void OfBalance(const Source& from, Samples* to) {
  if (from.job().has_balance()) {
    to->Add(static_cast<double>((from.job().balance().*Figure)()));
  }
}

template <auto Figure>
void OfEvaluation(const Source& from, Samples* to) {
  if (from.job().has_evaluation()) {
    to->Add(static_cast<double>((from.job().evaluation().*Figure)()));
  }
}

template <auto Figure>
void OfCheckpoint(const Source& from, Samples* to) {
  if (!from.job().checkpoint_path().empty()) OfJob<Figure>(from, to);
}

constexpr Metric kJobMetrics[] = {
    {"paramd_job_state_info", kGauge, "state",
     "The state of the job: starting, running, finishing or finished; always "
     "1. This and the metrics below are on the chief alone.",
     [](const Source& from, Samples* to) {
       if (!from.status.has_job()) return;
       to->Add(1, {{"state", absl::AsciiStrToLower(
                                 v1::JobState_Name(from.job().state()))}});
     }},
    {"paramd_job_planned_epochs", kGauge, "",
     "Epochs that the job is to train.", OfJob<&v1::JobStats::epochs>},
    {"paramd_job_done_epochs", kGauge, "",
     "Epochs used up by acknowledged pushes, fractions included.",
     OfJob<&v1::JobStats::epochs_done>},
    {"paramd_job_global_steps", kGauge, "",
     "Pushes acknowledged in all sessions so far.",
     OfJob<&v1::JobStats::global_step>},
    {"paramd_job_lost_pushes", kGauge, "",
     "Acknowledged pushes that were lost with the memory of a server.",
     OfJob<&v1::JobStats::pushes_lost>},
    {"paramd_job_doubled_pushes", kGauge, "",
     "Pushes that some block of the newest checkpoint has twice: never any.",
     OfJob<&v1::JobStats::pushes_doubled>},
    {"paramd_job_failed_checkpoints_total", kCounter, "",
     "Checkpoints that were given up; the log says why.",
     OfJob<&v1::JobStats::checkpoints_failed>},
    {"paramd_job_lost_checkpoint_directories", kGauge, "",
     "1 while the path of the checkpoint directory leads to another one, or to "
     "none, so that nothing is committed; else 0.",
     OfJob<&v1::JobStats::checkpoint_directory_lost>},
    {"paramd_job_member_processes", kGauge, "type, state",
     "Members of the job that its cluster names, and that are awaited, "
     "starting, alive or lost.",
     [](const Source& from, Samples* to) {
       if (from.status.has_job()) FillMembers(from, to);
     }},
    {"paramd_job_joined_workers", kGauge, "",
     "Workers that have joined beside those that the cluster names.",
     OfJob<&v1::JobStats::joined_workers>},
    {"paramd_job_member_silence_seconds", kGauge, "task",
     "How long ago the chief heard a member; none: never.", FillSilence},
    {"paramd_job_backup_servers", kGauge, "server",
     "With replication: 1 if the server's backup has everything, else 0.",
     FillBackups},
    {"paramd_job_moved_servers_total", kCounter, "",
     "With rebalance: servers or backups that were moved to another ps, since "
     "the chief began.",
     OfBalance<&v1::Balance::moves>},
    {"paramd_job_failed_moves_total", kCounter, "",
     "With rebalance: moves of a server that were given up; the log says why.",
     OfBalance<&v1::Balance::given_up>},
    {"paramd_job_ps_processors", kGauge, "ps",
     "With rebalance: processors that each ps spent on the servers and backups "
     "it holds, in the last minute that was measured.",
     FillBalance},
    {"paramd_evaluation_accuracy_ratio", kGauge, "",
     "Share of the test set's labels that the newest evaluation got right; "
     "none: the model has no accuracy.",
     FillAccuracy},
    {"paramd_evaluation_metric_value", kGauge, "metric",
     "Each metric of the model except the loss, from the newest evaluation.",
     FillEvaluation},
    {"paramd_evaluation_slice_value", kGauge, "metric, feature, value",
     "The loss and each metric of the model, from the newest evaluation, over "
     "the examples of which a feature of model.slices has the value.",
     FillSlices},
    {"paramd_evaluation_slice_examples", kGauge, "feature, value",
     "Examples of the newest evaluation of which the feature has the value.",
     FillSliceExamples},
    {"paramd_evaluation_loss_per_example", kGauge, "",
     "Mean loss of the newest evaluation on the test set.",
     OfEvaluation<&v1::Evaluation::loss>},
    {"paramd_evaluation_done_epochs", kGauge, "",
     "The epoch after which the newest evaluation was made.",
     OfEvaluation<&v1::Evaluation::epoch>},
    {"paramd_checkpoint_global_steps", kGauge, "",
     "Global step of the newest checkpoint.",
     OfCheckpoint<&v1::JobStats::checkpoint_step>},
    {"paramd_checkpoint_size_bytes", kGauge, "",
     "Size of the newest checkpoint that this chief wrote.",
     OfCheckpoint<&v1::JobStats::checkpoint_bytes>},
    {"paramd_checkpoint_duration_seconds", kGauge, "",
     "How long the newest checkpoint took, from opening to commit.",
     [](const Source& from, Samples* to) {
       if (from.job().checkpoint_bytes() == 0) return;
       to->Add(from.job().checkpoint_ms() / 1000);
     }},
    {"paramd_checkpoint_age_seconds", kGauge, "",
     "How long ago the newest checkpoint that this chief wrote was committed.",
     [](const Source& from, Samples* to) {
       if (!from.job().has_checkpoint_ago_ms()) return;
       to->Add(Seconds(from.job().checkpoint_ago_ms()));
     }},
};

}  // namespace

absl::Span<const Metric> OfJobs() { return kJobMetrics; }

}  // namespace paramd::metric_table
