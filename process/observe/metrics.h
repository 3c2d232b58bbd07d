#ifndef PARAMD_PROCESS_OBSERVE_METRICS_H_
#define PARAMD_PROCESS_OBSERVE_METRICS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

#include "prometheus/metric_family.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What /metrics says about one process, made from what the process says about
// itself (v1::StatusReply). Tables are behind it all (metric_table.h), with
// which docs/metrics.md is compared.
//
// Names are paramd_<subsystem>_<what>_<unit>, base units, with _total for what
// only grows within a session. Labels are the tasks, servers and states of the
// job, so their number is bounded by its size.

// One metric, as people are told of it.
struct MetricInfo {
  std::string name;
  std::string type;    // "counter", "gauge", "histogram"
  std::string labels;  // "type, state"; empty: none
  std::string help;
};

// All there are, in the order in which they appear.
std::vector<MetricInfo> AllMetrics();

// Those that apply to `status`, which was taken `age` ago.
std::vector<prometheus::MetricFamily> MetricsOf(const v1::StatusReply& status,
                                                absl::Duration age);

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_METRICS_H_
