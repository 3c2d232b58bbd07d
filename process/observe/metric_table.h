#ifndef PARAMD_PROCESS_OBSERVE_METRIC_TABLE_H_
#define PARAMD_PROCESS_OBSERVE_METRIC_TABLE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "prometheus/metric_family.h"
#include "proto/paramd/v1/status.pb.h"

// The rows of which metrics.h makes metrics: those of each process, and those
// of each role that it may have.
namespace paramd::metric_table {

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

// A row of a table.
struct Metric {
  const char* name;
  MetricType type;
  const char* labels;
  const char* help;
  void (*fill)(const Source& from, Samples* to);
};

inline constexpr MetricType kCounter = MetricType::Counter;
inline constexpr MetricType kGauge = MetricType::Gauge;
inline constexpr MetricType kHistogram = MetricType::Histogram;

inline double Seconds(uint64_t ms) { return static_cast<double>(ms) / 1000; }

// "ps", "worker".
std::string TypeName(v1::TaskType type);

ClientMetric::Histogram HistogramOf(const v1::Durations& durations);

// In the order in which they appear: of each process, of one with a server, of
// the calls that a process answers, of a worker, and of the chief.
absl::Span<const Metric> OfProcesses();
absl::Span<const Metric> OfServers();
absl::Span<const Metric> OfCalls();
absl::Span<const Metric> OfWorkers();
absl::Span<const Metric> OfJobs();

}  // namespace paramd::metric_table

#endif  // PARAMD_PROCESS_OBSERVE_METRIC_TABLE_H_
