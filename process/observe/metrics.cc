#include "process/observe/metrics.h"

#include <utility>

#include "process/observe/metric_table.h"

namespace paramd {
namespace {

using metric_table::Metric;

std::vector<Metric> AllRows() {
  std::vector<Metric> all;
  for (const absl::Span<const Metric> rows :
       {metric_table::OfProcesses(), metric_table::OfServers(),
        metric_table::OfCalls(), metric_table::OfWorkers(),
        metric_table::OfJobs()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace

std::vector<MetricInfo> AllMetrics() {
  std::vector<MetricInfo> all;
  for (const Metric& metric : AllRows()) {
    all.push_back({metric.name,
                   metric.type == metric_table::kCounter ? "counter"
                   : metric.type == metric_table::kGauge ? "gauge"
                                                         : "histogram",
                   metric.labels, metric.help});
  }
  return all;
}

std::vector<prometheus::MetricFamily> MetricsOf(const v1::StatusReply& status,
                                                absl::Duration age) {
  std::vector<prometheus::MetricFamily> families;
  for (const Metric& metric : AllRows()) {
    prometheus::MetricFamily family;
    family.name = metric.name;
    family.help = metric.help;
    family.type = metric.type;
    metric_table::Samples samples(&family);
    metric.fill({status, age}, &samples);
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
  return families;
}

}  // namespace paramd
