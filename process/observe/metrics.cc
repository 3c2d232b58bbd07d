#include "process/observe/metrics.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "proto/duration_count.h"
#include "proto/metric_values.h"

namespace paramd {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// What a metric is made from.
struct Source {
  const v1::StatusReply& status;
  absl::Duration age;

  const v1::ServerStats& server() const { return status.server(); }
  const v1::WorkerStats& worker() const { return status.worker(); }
  const v1::JobStats& job() const { return status.job(); }
};

// Adds the samples of one metric, if it applies.
class Samples {
 public:
  explicit Samples(MetricFamily* family) : family_(*family) {}

  void Add(double value, Labels labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value
                                         : metric.gauge.value) = value;
    family_.metric.push_back(std::move(metric));
  }
  void Add(const ClientMetric::Histogram& histogram, Labels labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.histogram = histogram;
    family_.metric.push_back(std::move(metric));
  }

 private:
  MetricFamily& family_;
};

struct Metric {
  const char* name;
  MetricType type;
  const char* labels;
  const char* help;
  void (*fill)(const Source& from, Samples* to);
};

constexpr MetricType kCounter = MetricType::Counter;
constexpr MetricType kGauge = MetricType::Gauge;
constexpr MetricType kHistogram = MetricType::Histogram;

double Seconds(uint64_t ms) { return static_cast<double>(ms) / 1000; }

std::string TypeName(v1::TaskType type) {
  return absl::AsciiStrToLower(v1::TaskType_Name(type));
}

void FillBuild(const Source& from, Samples* to) {
  const std::string& build = from.status.build();
  const size_t blank = build.find(' ');
  to->Add(1, {{"version", build.substr(0, blank)},
              {"commit",
               blank == std::string::npos ? "" : build.substr(blank + 1)}});
}

// Servers count in powers of two: 0, 1, 2 to 3, 4 to 7 and so on.
void FillStaleness(const Source& from, Samples* to) {
  if (!from.status.has_server()) return;
  const v1::Staleness& staleness = from.server().staleness();
  ClientMetric::Histogram histogram;
  histogram.sample_count = staleness.blocks();
  histogram.sample_sum = static_cast<double>(staleness.sum());
  uint64_t below = 0;
  for (int i = 0; i + 1 < staleness.histogram_size(); ++i) {
    below += staleness.histogram(i);
    histogram.bucket.push_back({below, std::exp2(i) - 1});
  }
  histogram.bucket.push_back(
      {staleness.blocks(), std::numeric_limits<double>::infinity()});
  to->Add(histogram);
}

ClientMetric::Histogram HistogramOf(const v1::Durations& durations) {
  ClientMetric::Histogram histogram;
  histogram.sample_count = durations.count();
  histogram.sample_sum = static_cast<double>(durations.total_us()) / 1e6;
  uint64_t below = 0;
  for (int i = 0; i + 1 < durations.histogram_size(); ++i) {
    below += durations.histogram(i);
    histogram.bucket.push_back(
        {below, absl::ToDoubleSeconds(DurationCount::EndOf(i))});
  }
  histogram.bucket.push_back(
      {durations.count(), std::numeric_limits<double>::infinity()});
  return histogram;
}

void FillCallTimes(const Source& from, Samples* to) {
  for (const v1::CallStats& call : from.status.calls()) {
    to->Add(HistogramOf(call.took()), {{"method", call.method()}});
  }
}

void FillRefusedConnections(const Source& from, Samples* to) {
  for (const v1::RefusedConnections& refused :
       from.status.refused_connections()) {
    to->Add(static_cast<double>(refused.over_limit()),
            {{"port", refused.port()}, {"reason", "over_limit"}});
    to->Add(static_cast<double>(refused.unfinished()),
            {{"port", refused.port()}, {"reason", "unfinished"}});
  }
}

template <auto kField>
void OfCalls(const Source& from, Samples* to) {
  for (const v1::CallStats& call : from.status.calls()) {
    to->Add(static_cast<double>((call.*kField)()), {{"method", call.method()}});
  }
}

void FillSteps(const Source& from, Samples* to) {
  if (from.worker().steps().count() == 0) return;
  to->Add(HistogramOf(from.worker().steps()));
}

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

void FillWaits(const Source& from, Samples* to) {
  for (const v1::Wait& wait : from.status.waits()) {
    to->Add(Seconds(wait.since_ms()), {{"core", wait.who()}});
  }
}

void FillPulls(const Source& from, Samples* to) {
  for (int i = 0; i < from.worker().pull_p50_ms_size(); ++i) {
    to->Add(from.worker().pull_p50_ms(i) / 1000,
            {{"server", absl::StrCat("ps-", i)}});
  }
}

void FillInputStages(const Source& from, Samples* to) {
  for (const v1::InputStats::Stage& stage : from.worker().input().stages()) {
    to->Add(stage.seconds(), {{"stage", stage.name()}});
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

// One figure of a role, if the process has the role.
template <auto Figure>
void OfServer(const Source& from, Samples* to) {
  if (from.status.has_server()) {
    to->Add(static_cast<double>((from.server().*Figure)()));
  }
}

// One figure of each table of a server.
template <auto Figure>
void OfTables(const Source& from, Samples* to) {
  for (const v1::TableStats& table : from.server().tables()) {
    to->Add(static_cast<double>((table.*Figure)()),
            {{"variable", table.variable()}});
  }
}

// One figure of the places of servers that a process has, with replication.
template <auto Figure>
void OfPlaces(const Source& from, Samples* to) {
  const auto& shards = from.status.shards();
  const bool has_places =
      !shards.empty() && shards[0].replica() != v1::REPLICA_ROLE_UNSPECIFIED;
  if (has_places) OfServer<Figure>(from, to);
}

template <auto Figure>
void OfWorker(const Source& from, Samples* to) {
  if (from.status.has_worker()) {
    to->Add(static_cast<double>((from.worker().*Figure)()));
  }
}

template <auto Figure>
void OfInput(const Source& from, Samples* to) {
  if (from.worker().has_input()) {
    to->Add(static_cast<double>((from.worker().input().*Figure)()));
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

constexpr Metric kMetrics[] = {
    {"paramd_build_info", kGauge, "version, commit",
     "What this process was built from; always 1.", FillBuild},
    {"paramd_task_info", kGauge, "type, index",
     "Which task this process is; always 1.",
     [](const Source& from, Samples* to) {
       to->Add(1, {{"type", TypeName(from.status.task().type())},
                   {"index", absl::StrCat(from.status.task().index())}});
     }},
    {"paramd_status_age_seconds", kGauge, "",
     "How long ago the process said what all other metrics are made from.",
     [](const Source& from, Samples* to) {
       to->Add(absl::ToDoubleSeconds(from.age));
     }},
    {"paramd_core_wait_seconds", kGauge, "core",
     "How long a core has been waiting; none: it is not. The log and paramd "
     "status say for what.",
     FillWaits},

    {"paramd_server_values_bytes", kGauge, "",
     "Bytes of the values that this server owns.",
     OfServer<&v1::ServerStats::bytes>},
    {"paramd_server_restored_shards", kGauge, "",
     "1 if the shard is filled and may be pulled, else 0.",
     OfServer<&v1::ServerStats::restored>},
    {"paramd_server_answered_pulls_total", kCounter, "", "Pulls answered.",
     OfServer<&v1::ServerStats::pulls>},
    {"paramd_server_parked_pulls_total", kCounter, "",
     "Pulls that had to wait for a slower worker.",
     OfServer<&v1::ServerStats::pulls_parked>},
    {"paramd_server_waiting_pulls", kGauge, "",
     "Pulls that wait for a slower worker now.",
     OfServer<&v1::ServerStats::pulls_waiting>},
    {"paramd_server_pull_wait_seconds_total", kCounter, "",
     "How long pulls waited for slower workers, all together.",
     OfServer<&v1::ServerStats::pull_wait_seconds>},
    {"paramd_server_applied_blocks_total", kCounter, "",
     "Pushed blocks that were applied.",
     OfServer<&v1::ServerStats::blocks_applied>},
    {"paramd_server_repeated_blocks_total", kCounter, "",
     "Pushed blocks that had been applied already.",
     OfServer<&v1::ServerStats::blocks_repeated>},
    {"paramd_server_refused_blocks_total", kCounter, "",
     "Pushed blocks that were refused.",
     OfServer<&v1::ServerStats::blocks_refused>},
    {"paramd_server_quarantined_blocks_total", kCounter, "",
     "Of those refused: blocks of chunks with numbers that are not finite or "
     "far too large.",
     OfServer<&v1::ServerStats::blocks_quarantined>},
    {"paramd_server_frozen_bytes", kGauge, "",
     "Bytes of values and slots that exist twice for a snapshot.",
     OfServer<&v1::ServerStats::frozen_bytes>},
    {"paramd_server_memory_bytes", kGauge, "",
     "Bytes of weights, slots and what is made of them, wherever they are "
     "held, and of gradients that are kept.",
     OfServer<&v1::ServerStats::memory_bytes>},
    {"paramd_server_memory_limit_bytes", kGauge, "",
     "The most that paramd_server_memory_bytes may be; 0: no limit.",
     OfServer<&v1::ServerStats::memory_limit_bytes>},
    {"paramd_server_memory_refusals_total", kCounter, "",
     "Chunks and pulls that were refused because they did not fit into memory.",
     OfServer<&v1::ServerStats::memory_refusals>},
    {"paramd_server_spare_bytes", kGauge, "",
     "Of paramd_server_memory_bytes: memory that waits for its next use.",
     OfServer<&v1::ServerStats::spare_bytes>},
    {"paramd_server_lost_pushes", kGauge, "",
     "Acknowledged pushes that were lost with earlier lives of this server.",
     OfServer<&v1::ServerStats::pushes_lost>},
    {"paramd_server_alone_chunks_total", kCounter, "",
     "With replication: chunks of pushes that were acknowledged when only one "
     "server had them.",
     OfPlaces<&v1::ServerStats::acknowledged_alone>},
    {"paramd_server_replicated_bytes_total", kCounter, "",
     "With replication: bytes that were sent to backups.",
     OfPlaces<&v1::ServerStats::replicated_bytes>},
    {"paramd_server_replicating_chunks", kGauge, "",
     "With replication: chunks sent to backups that they have not taken yet.",
     OfPlaces<&v1::ServerStats::replicating>},
    {"paramd_table_used_rows", kGauge, "variable",
     "Of a keyed variable on this server: rows that have a key.",
     OfTables<&v1::TableStats::rows>},
    {"paramd_table_capacity_rows", kGauge, "variable",
     "The most rows that can have a key.", OfTables<&v1::TableStats::capacity>},
    {"paramd_table_memory_rows", kGauge, "variable",
     "Of the capacity: rows that lie in memory. The others lie on the disk.",
     OfTables<&v1::TableStats::memory_rows>},
    {"paramd_table_looked_up_keys_total", kCounter, "variable",
     "Keys that were looked up.", OfTables<&v1::TableStats::looked_up>},
    {"paramd_table_disk_keys_total", kCounter, "variable",
     "Keys that were looked up and whose rows lay on the disk.",
     OfTables<&v1::TableStats::on_disk>},
    {"paramd_table_created_rows_total", kCounter, "variable",
     "Keys that got a row.", OfTables<&v1::TableStats::created>},
    {"paramd_table_asking_keys", kGauge, "variable",
     "Different keys that asked for a row since the server took up its "
     "content, whether or not they got it; within a few percent.",
     OfTables<&v1::TableStats::keys>},
    {"paramd_table_evicted_rows_total", kCounter, "variable",
     "Keys that lost their row to another one.",
     OfTables<&v1::TableStats::evicted>},
    {"paramd_table_expired_rows_total", kCounter, "variable",
     "Keys that lost their row because nothing named them any more.",
     OfTables<&v1::TableStats::expired>},
    {"paramd_table_dropped_gradients_total", kCounter, "variable",
     "Gradients of keys that got no row, because none was left or too few had "
     "named them.",
     [](const Source& from, Samples* to) {
       for (const v1::TableStats& table : from.server().tables()) {
         to->Add(static_cast<double>(table.ignored() + table.not_admitted()),
                 {{"variable", table.variable()}});
       }
     }},
    {"paramd_server_staleness_pushes", kHistogram, "",
     "How many other pushes a block had taken in between the read that a "
     "gradient was computed on and its application.",
     FillStaleness},

    {"paramd_call_seconds", kHistogram, "method",
     "How long this process took for a call, from when the request had arrived "
     "until its answer was given to the network.",
     FillCallTimes},
    {"paramd_call_refusals_total", kCounter, "method",
     "Calls that were refused, for now or for good.",
     OfCalls<&v1::CallStats::refused>},
    {"paramd_refused_connections_total", kCounter, "port, reason",
     "Connections that were closed to keep answering others, at the ports for "
     "calls, health and http: over_limit, too many were open; unfinished, they "
     "sent too much or took too long.",
     FillRefusedConnections},
    {"paramd_audit_dropped_entries_total", kCounter, "",
     "Calls of operators that audit.jsonl should have and has not: its disk "
     "was full or too slow. The log has them.",
     [](const Source& from, Samples* to) {
       to->Add(static_cast<double>(from.status.audit_dropped()));
     }},
    {"paramd_call_received_bytes_total", kCounter, "method",
     "Bytes of requests, with what lay in shared memory.",
     OfCalls<&v1::CallStats::received_bytes>},
    {"paramd_call_sent_bytes_total", kCounter, "method",
     "Bytes of answers, with what lies in shared memory.",
     OfCalls<&v1::CallStats::sent_bytes>},

    {"paramd_worker_step_seconds", kHistogram, "",
     "Time from one gradient to the next, while the worker trains.", FillSteps},
    {"paramd_worker_trained_examples_per_second", kGauge, "",
     "Examples trained on, over the last steps.",
     OfWorker<&v1::WorkerStats::examples_per_second>},
    {"paramd_worker_loss_per_example", kGauge, "",
     "Mean loss of the last steps.", OfWorker<&v1::WorkerStats::loss>},
    {"paramd_worker_begun_epochs", kGauge, "",
     "The epoch that this worker is in, from 1.",
     OfWorker<&v1::WorkerStats::epoch>},
    {"paramd_worker_acknowledged_pushes_total", kCounter, "",
     "Pushes that every server has acknowledged.",
     OfWorker<&v1::WorkerStats::pushes>},
    {"paramd_worker_given_up_pushes_total", kCounter, "",
     "Pushes that a server did not acknowledge in time.",
     OfWorker<&v1::WorkerStats::given_up>},
    {"paramd_worker_quarantined_pushes_total", kCounter, "",
     "Pushes that a server refused for their numbers.",
     OfWorker<&v1::WorkerStats::quarantined>},
    {"paramd_worker_overflowed_batches_total", kCounter, "",
     "How often gradients of a batch in fp16 were not finite and were computed "
     "again with half the loss scale.",
     OfWorker<&v1::WorkerStats::overflows>},
    {"paramd_worker_loss_scale_ratio", kGauge, "",
     "What the loss was multiplied by for the last gradient of fp16; 0: by "
     "nothing.",
     OfWorker<&v1::WorkerStats::loss_scale>},
    {"paramd_worker_spoiled_sessions_total", kCounter, "",
     "Sessions that ended because a server held what they had not sent.",
     OfWorker<&v1::WorkerStats::spoiled_sessions>},
    {"paramd_worker_median_pull_seconds", kGauge, "server",
     "Median duration of the last pulls from one server.", FillPulls},
    {"paramd_worker_input_batches_total", kCounter, "",
     "Batches that were handed over for computing gradients.",
     OfInput<&v1::InputStats::batches>},
    {"paramd_worker_input_ready_batches", kGauge, "",
     "Batches that are made and wait to be computed on.",
     OfInput<&v1::InputStats::ready_batches>},
    {"paramd_worker_input_wait_seconds_total", kCounter, "",
     "How long computing waited for a batch.",
     OfInput<&v1::InputStats::wait_seconds>},
    {"paramd_worker_input_making_threads", kGauge, "",
     "Threads that make batches; auto changes their number.",
     OfInput<&v1::InputStats::threads>},
    {"paramd_worker_input_skipped_examples_total", kCounter, "",
     "Examples that were left out because they could not be read or mapped.",
     OfInput<&v1::InputStats::skipped_examples>},
    {"paramd_worker_input_empty_offsets_total", kCounter, "",
     "Offsets of a topic of Kafka that had no message to train on.",
     OfInput<&v1::InputStats::empty_offsets>},
    {"paramd_worker_input_gone_messages_total", kCounter, "",
     "Messages of a topic of Kafka that were deleted before they were read.",
     OfInput<&v1::InputStats::gone_messages>},
    {"paramd_worker_input_joined_clicks_total", kCounter, "",
     "With input.train.kafka.join, clicks whose example is within the window.",
     OfInput<&v1::InputStats::joined_clicks>},
    {"paramd_worker_input_late_clicks_total", kCounter, "",
     "With input.train.kafka.join, clicks whose example is further away in "
     "time "
     "than the window.",
     OfInput<&v1::InputStats::late_clicks>},
    {"paramd_worker_input_stray_clicks_total", kCounter, "",
     "With input.train.kafka.join, clicks of which no example was found.",
     OfInput<&v1::InputStats::stray_clicks>},
    {"paramd_worker_input_stage_seconds_total", kCounter, "stage",
     "What a stage of the input took itself, all threads together; an estimate "
     "from one example in sixteen.",
     FillInputStages},

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

std::vector<MetricInfo> AllMetrics() {
  std::vector<MetricInfo> all;
  for (const Metric& metric : kMetrics) {
    all.push_back({metric.name,
                   metric.type == kCounter ? "counter"
                   : metric.type == kGauge ? "gauge"
                                           : "histogram",
                   metric.labels, metric.help});
  }
  return all;
}

std::vector<MetricFamily> MetricsOf(const v1::StatusReply& status,
                                    absl::Duration age) {
  std::vector<MetricFamily> families;
  for (const Metric& metric : kMetrics) {
    MetricFamily family;
    family.name = metric.name;
    family.help = metric.help;
    family.type = metric.type;
    Samples samples(&family);
    metric.fill({status, age}, &samples);
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
  return families;
}

}  // namespace paramd
