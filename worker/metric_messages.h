#ifndef PARAMD_WORKER_METRIC_MESSAGES_H_
#define PARAMD_WORKER_METRIC_MESSAGES_H_

#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "worker/model/metrics.h"

namespace paramd {

// What was counted in a training step, as it is sent. Without the area under a
// curve, which has no sum.
void SetMetrics(const Metrics& metrics, v1::ComputeGradientResult* result);

// What was counted on the test set.
void SetMetrics(const Metrics& metrics, v1::Evaluation* evaluation);

}  // namespace paramd

#endif  // PARAMD_WORKER_METRIC_MESSAGES_H_
