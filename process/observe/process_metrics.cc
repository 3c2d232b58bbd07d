#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "process/observe/metric_table.h"
#include "proto/duration_count.h"

namespace paramd::metric_table {
namespace {

void FillBuild(const Source& from, Samples* to) {
  const std::string& build = from.status.build();
  const size_t blank = build.find(' ');
  to->Add(1, {{"version", build.substr(0, blank)},
              {"commit",
               blank == std::string::npos ? "" : build.substr(blank + 1)}});
}

void FillWaits(const Source& from, Samples* to) {
  for (const v1::Wait& wait : from.status.waits()) {
    to->Add(Seconds(wait.since_ms()), {{"core", wait.who()}});
  }
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
void OfMethods(const Source& from, Samples* to) {
  for (const v1::CallStats& call : from.status.calls()) {
    to->Add(static_cast<double>((call.*kField)()), {{"method", call.method()}});
  }
}

constexpr Metric kProcessMetrics[] = {
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
};

constexpr Metric kCallMetrics[] = {
    {"paramd_call_seconds", kHistogram, "method",
     "How long this process took for a call, from when the request had arrived "
     "until its answer was given to the network.",
     FillCallTimes},
    {"paramd_call_refusals_total", kCounter, "method",
     "Calls that were refused, for now or for good.",
     OfMethods<&v1::CallStats::refused>},
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
     OfMethods<&v1::CallStats::received_bytes>},
    {"paramd_call_sent_bytes_total", kCounter, "method",
     "Bytes of answers, with what lies in shared memory.",
     OfMethods<&v1::CallStats::sent_bytes>},
};

}  // namespace

absl::Span<const Metric> OfProcesses() { return kProcessMetrics; }

absl::Span<const Metric> OfCalls() { return kCallMetrics; }

std::string TypeName(v1::TaskType type) {
  return absl::AsciiStrToLower(v1::TaskType_Name(type));
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

}  // namespace paramd::metric_table
