#include "process/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

// A process that is everything: ps, worker and chief.
v1::StatusReply Everything() {
  v1::StatusReply status;
  status.set_build("0.1 abc");
  status.set_audit_dropped(12);
  status.add_refused_connections()->set_port("http");
  status.mutable_refused_connections(0)->set_over_limit(13);
  status.mutable_refused_connections(0)->set_unfinished(14);
  status.mutable_task()->set_type(v1::PS);
  status.add_waits()->set_who("ps-0");
  status.mutable_waits(0)->set_since_ms(1500);
  status.mutable_server()->set_pulls(7);
  status.mutable_server()->set_pulls_parked(3);
  status.mutable_server()->set_pulls_waiting(1);
  status.mutable_server()->set_pull_wait_seconds(2.5);
  status.mutable_server()->set_pushes_lost(4);
  v1::Staleness* staleness = status.mutable_server()->mutable_staleness();
  staleness->set_blocks(10);
  staleness->set_sum(21);
  for (const uint64_t count : {4, 3, 2, 1}) staleness->add_histogram(count);
  status.mutable_server()->set_acknowledged_alone(11);
  status.add_shards()->set_replica(v1::REPLICA_PRIMARY);
  v1::CallStats* call = status.add_calls();
  call->set_method("Push");
  call->set_refused(2);
  call->set_received_bytes(1000);
  call->set_sent_bytes(50);
  for (v1::Durations* durations :
       {call->mutable_took(), status.mutable_worker()->mutable_steps()}) {
    durations->set_count(7);
    durations->set_total_us(2500);
    for (const uint64_t count : {4, 2, 1}) durations->add_histogram(count);
  }
  status.mutable_worker()->add_pull_p50_ms(2);
  v1::TableStats* table = status.mutable_server()->add_tables();
  table->set_variable("clicks/table");
  table->set_looked_up(1000);
  table->set_on_disk(30);
  table->set_ignored(1);
  table->set_not_admitted(2);
  v1::InputStats* input = status.mutable_worker()->mutable_input();
  input->set_wait_seconds(1.5);
  input->add_stages()->set_name("read");
  input->mutable_stages(0)->set_seconds(3);
  v1::JobStats* job = status.mutable_job();
  job->set_state(v1::RUNNING);
  job->set_checkpoint_path("/c");
  job->set_pushes_lost(5);
  job->set_pushes_doubled(6);
  job->set_checkpoint_bytes(5);
  job->set_checkpoint_ms(1500);
  job->set_checkpoint_ago_ms(2000);
  job->set_checkpoints_failed(9);
  job->set_checkpoint_directory_lost(true);
  job->mutable_balance()->set_moves(3);
  job->mutable_balance()->set_given_up(1);
  job->mutable_balance()->add_processors(1.25);
  job->mutable_balance()->add_processors(0.5);
  job->mutable_evaluation()->set_examples(8);
  (*job->mutable_evaluation()->mutable_metrics())["accuracy"] = 0.75;
  (*job->mutable_evaluation()->mutable_metrics())["top_5"] = 0.875;
  v1::EvaluatedSlice* slice = job->mutable_evaluation()->add_slices();
  slice->set_feature("device");
  slice->set_value(2);
  slice->set_examples(5);
  slice->set_loss(0.25);
  (*slice->mutable_metrics())["top_5"] = 0.75;
  for (const auto state : {v1::Member::ALIVE, v1::Member::LOST}) {
    v1::Member* member = job->add_members();
    member->mutable_task()->set_type(v1::WORKER);
    member->mutable_task()->set_index(job->members_size());
    member->set_state(state);
    member->set_silent_ms(250);
  }
  for (const bool whole : {true, false}) {
    v1::Member* member = job->add_members();
    member->mutable_task()->set_type(v1::PS);
    member->mutable_task()->set_index(whole ? 0 : 1);
    member->set_peer(whole ? 0 : 2);
    member->set_backup_is_member(whole);
  }
  return status;
}

// Samples by name and labels, "name{key=value,…}".
std::map<std::string, double> Samples(const v1::StatusReply& status) {
  std::map<std::string, double> samples;
  for (const auto& family : MetricsOf(status, absl::Seconds(2))) {
    for (const auto& metric : family.metric) {
      std::string name = family.name;
      for (const auto& label : metric.label) {
        absl::StrAppend(&name, "{", label.name, "=", label.value, "}");
      }
      samples[name] = family.type == prometheus::MetricType::Counter
                          ? metric.counter.value
                          : metric.gauge.value;
    }
  }
  return samples;
}

TEST(MetricsTest, EveryNameKeepsToTheRule) {
  const std::regex rule(
      "paramd_[a-z]+(_[a-z]+)*_(info|ratio|seconds|batches|bytes|blocks|"
      "checkpoints|chunks|clicks|connections|directories|entries|"
      "epochs|examples|gradients|keys|"
      "messages|moves|"
      "offsets|processes|processors|pulls|pushes|refusals|rows|servers|"
      "sessions|shards|"
      "steps|threads|value|workers|"
      "per_example|per_second)"
      "(_total)?");
  std::set<std::string> names;
  for (const MetricInfo& metric : AllMetrics()) {
    EXPECT_TRUE(std::regex_match(metric.name, rule)) << metric.name;
    EXPECT_EQ(absl::EndsWith(metric.name, "_total"), metric.type == "counter")
        << metric.name;
    EXPECT_TRUE(absl::EndsWith(metric.help, ".")) << metric.name;
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
  }
}

TEST(MetricsTest, AProcessThatIsEverythingHasAllWithTheLabelsThatWereSaid) {
  std::vector<std::string> names;
  for (const auto& family : MetricsOf(Everything(), absl::ZeroDuration())) {
    names.push_back(family.name);
    for (const MetricInfo& info : AllMetrics()) {
      if (info.name != family.name) continue;
      EXPECT_EQ(info.help, family.help);
      std::vector<std::string> labels;
      for (const auto& label : family.metric[0].label) {
        labels.push_back(label.name);
      }
      EXPECT_EQ(absl::StrJoin(labels, ", "), info.labels) << info.name;
    }
  }
  std::vector<std::string> all;
  for (const MetricInfo& info : AllMetrics()) all.push_back(info.name);
  EXPECT_EQ(names, all);
}

TEST(MetricsTest, FiguresAreInBaseUnits) {
  const auto samples = Samples(Everything());
  EXPECT_EQ(samples.at("paramd_status_age_seconds"), 2);
  EXPECT_EQ(samples.at("paramd_build_info{version=0.1}{commit=abc}"), 1);
  EXPECT_EQ(samples.at("paramd_task_info{type=ps}{index=0}"), 1);
  EXPECT_EQ(samples.at("paramd_core_wait_seconds{core=ps-0}"), 1.5);
  EXPECT_EQ(samples.at("paramd_server_answered_pulls_total"), 7);
  EXPECT_EQ(samples.at("paramd_server_parked_pulls_total"), 3);
  EXPECT_EQ(samples.at("paramd_server_waiting_pulls"), 1);
  EXPECT_EQ(samples.at("paramd_server_pull_wait_seconds_total"), 2.5);
  EXPECT_EQ(samples.at("paramd_server_lost_pushes"), 4);
  EXPECT_EQ(
      samples.at("paramd_table_looked_up_keys_total{variable=clicks/table}"),
      1000);
  EXPECT_EQ(samples.at("paramd_table_disk_keys_total{variable=clicks/table}"),
            30);
  EXPECT_EQ(
      samples.at("paramd_table_dropped_gradients_total{variable=clicks/table}"),
      3);
  EXPECT_EQ(samples.at("paramd_refused_connections_total{port=http}"
                       "{reason=over_limit}"),
            13);
  EXPECT_EQ(samples.at("paramd_refused_connections_total{port=http}"
                       "{reason=unfinished}"),
            14);
  EXPECT_EQ(samples.at("paramd_audit_dropped_entries_total"), 12);
  EXPECT_EQ(samples.at("paramd_job_lost_pushes"), 5);
  EXPECT_EQ(samples.at("paramd_job_doubled_pushes"), 6);
  EXPECT_EQ(samples.at("paramd_job_failed_checkpoints_total"), 9);
  EXPECT_EQ(samples.at("paramd_job_lost_checkpoint_directories"), 1);
  EXPECT_EQ(samples.at("paramd_worker_input_wait_seconds_total"), 1.5);
  EXPECT_EQ(samples.at("paramd_worker_input_stage_seconds_total{stage=read}"),
            3);
  EXPECT_EQ(samples.at("paramd_worker_median_pull_seconds{server=ps-0}"),
            0.002);
  EXPECT_EQ(samples.at("paramd_job_state_info{state=running}"), 1);
  EXPECT_EQ(samples.at("paramd_job_member_silence_seconds{task=worker-2}"),
            0.25);
  EXPECT_EQ(samples.at("paramd_evaluation_accuracy_ratio"), 0.75);
  EXPECT_EQ(samples.at("paramd_evaluation_metric_value{metric=top_5}"), 0.875);
  EXPECT_EQ(samples.at("paramd_evaluation_slice_value{metric=top_5}"
                       "{feature=device}{value=2}"),
            0.75);
  EXPECT_EQ(samples.at("paramd_evaluation_slice_value{metric=loss}"
                       "{feature=device}{value=2}"),
            0.25);
  EXPECT_EQ(samples.at("paramd_evaluation_slice_examples{feature=device}"
                       "{value=2}"),
            5);
  EXPECT_EQ(samples.at("paramd_checkpoint_duration_seconds"), 1.5);
}

TEST(MetricsTest, MembersAreCountedByTypeAndStateAlsoWhereThereAreNone) {
  const auto samples = Samples(Everything());
  const auto count = [&](const std::string& type, const std::string& state) {
    return samples.at(absl::StrCat("paramd_job_member_processes{type=", type,
                                   "}{state=", state, "}"));
  };
  EXPECT_EQ(count("worker", "alive"), 1);
  EXPECT_EQ(count("worker", "lost"), 1);
  EXPECT_EQ(count("worker", "awaited"), 0);
  EXPECT_EQ(count("ps", "starting"), 0);
}

TEST(MetricsTest, WorkersThatJoinedAreCountedByThemselves) {
  v1::StatusReply status = Everything();
  status.mutable_job()->set_joined_workers(1);
  v1::Member* const member = status.mutable_job()->add_members();
  member->mutable_task()->set_type(v1::WORKER);
  member->mutable_task()->set_index(7);
  member->set_state(v1::Member::LOST);
  member->set_joined(true);
  const auto samples = Samples(status);
  EXPECT_EQ(samples.at("paramd_job_joined_workers"), 1);
  EXPECT_EQ(samples.at("paramd_job_member_processes{type=worker}{state=lost}"),
            1);
}

TEST(MetricsTest, WithReplicationEachServerSaysWhetherItsBackupIsWhole) {
  const auto samples = Samples(Everything());
  EXPECT_EQ(samples.at("paramd_job_backup_servers{server=ps-0}"), 1);
  EXPECT_EQ(samples.at("paramd_job_backup_servers{server=ps-1}"), 0);
  EXPECT_EQ(samples.at("paramd_server_alone_chunks_total"), 11);
  v1::StatusReply without = Everything();
  without.clear_shards();
  for (v1::Member& member : *without.mutable_job()->mutable_members()) {
    member.clear_peer();
  }
  for (const auto& [name, value] : Samples(without)) {
    EXPECT_FALSE(absl::StrContains(name, "backup")) << name;
    EXPECT_FALSE(absl::StrContains(name, "alone")) << name;
    EXPECT_FALSE(absl::StrContains(name, "replicat")) << name;
  }
}

TEST(MetricsTest, MovesAndWhatEachPsCarriesAreCounted) {
  const auto samples = Samples(Everything());
  EXPECT_EQ(samples.at("paramd_job_moved_servers_total"), 3);
  EXPECT_EQ(samples.at("paramd_job_failed_moves_total"), 1);
  EXPECT_EQ(samples.at("paramd_job_ps_processors{ps=ps-0}"), 1.25);
  EXPECT_EQ(samples.at("paramd_job_ps_processors{ps=ps-1}"), 0.5);
}

TEST(MetricsTest, StalenessIsAHistogramWhoseBucketsAreCumulative) {
  for (const auto& family : MetricsOf(Everything(), absl::ZeroDuration())) {
    if (family.name != "paramd_server_staleness_pushes") continue;
    const auto& histogram = family.metric[0].histogram;
    EXPECT_EQ(histogram.sample_count, 10u);
    EXPECT_EQ(histogram.sample_sum, 21);
    std::vector<double> bounds;
    std::vector<uint64_t> counts;
    for (const auto& bucket : histogram.bucket) {
      bounds.push_back(bucket.upper_bound);
      counts.push_back(bucket.cumulative_count);
    }
    EXPECT_THAT(bounds,
                ElementsAre(0, 1, 3, std::numeric_limits<double>::infinity()));
    EXPECT_THAT(counts, ElementsAre(4, 7, 9, 10));
    return;
  }
  FAIL() << "there is no histogram";
}

TEST(MetricsTest, CallsAreTimedAndWeighedByMethod) {
  const auto samples = Samples(Everything());
  EXPECT_EQ(samples.at("paramd_call_refusals_total{method=Push}"), 2);
  EXPECT_EQ(samples.at("paramd_call_received_bytes_total{method=Push}"), 1000);
  EXPECT_EQ(samples.at("paramd_call_sent_bytes_total{method=Push}"), 50);
  int found = 0;
  for (const auto& family : MetricsOf(Everything(), absl::ZeroDuration())) {
    if (family.name != "paramd_call_seconds" &&
        family.name != "paramd_worker_step_seconds") {
      continue;
    }
    ++found;
    const auto& histogram = family.metric[0].histogram;
    EXPECT_EQ(histogram.sample_count, 7u);
    EXPECT_EQ(histogram.sample_sum, 0.0025);
    ASSERT_EQ(histogram.bucket.size(), 3u);
    EXPECT_EQ(histogram.bucket[0].upper_bound, 0.0001);
    EXPECT_EQ(histogram.bucket[1].upper_bound, 0.0002);
    EXPECT_EQ(histogram.bucket[1].cumulative_count, 6u);
    EXPECT_EQ(histogram.bucket[2].cumulative_count, 7u);
  }
  EXPECT_EQ(found, 2);
}

TEST(MetricsTest, AServerSaysNothingAboutWhatItIsNot) {
  v1::StatusReply status;
  status.mutable_server()->set_pulls(1);
  for (const auto& [name, value] : Samples(status)) {
    EXPECT_FALSE(absl::StrContains(name, "worker")) << name;
    EXPECT_FALSE(absl::StrContains(name, "_job_")) << name;
    EXPECT_FALSE(absl::StrContains(name, "checkpoint")) << name;
  }
}

TEST(MetricsTest, ThePageNamesEveryMetricAndNoOther) {
  std::ifstream file("docs/metrics.md", std::ios::binary);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> documented, expected;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "| `paramd_")) documented.emplace_back(line);
  }
  for (const MetricInfo& info : AllMetrics()) {
    expected.push_back(absl::StrCat("| `", info.name, "` | ", info.type, " | ",
                                    info.labels, info.labels.empty() ? "" : " ",
                                    "| ", info.help, " |"));
  }
  EXPECT_EQ(documented, expected) << "the table of docs/metrics.md should be:\n"
                                  << absl::StrJoin(expected, "\n");
}

}  // namespace
}  // namespace paramd
