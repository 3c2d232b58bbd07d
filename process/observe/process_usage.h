#ifndef PARAMD_PROCESS_OBSERVE_PROCESS_USAGE_H_
#define PARAMD_PROCESS_OBSERVE_PROCESS_USAGE_H_

#include <vector>

#include "prometheus/metric_family.h"

namespace paramd {

// What this process uses of its machine, under the names that Prometheus gives
// them for every program: process_cpu_seconds_total and so on. What can't be
// read is left out. Any thread.
std::vector<prometheus::MetricFamily> ProcessUsage();

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_PROCESS_USAGE_H_
