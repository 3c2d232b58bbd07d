#ifndef PARAMD_WORKER_METRIC_MESSAGES_H_
#define PARAMD_WORKER_METRIC_MESSAGES_H_

#include "absl/status/statusor.h"

#include "compute/model/metrics.h"
#include "proto/paramd/v1/evaluated_part.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// What was counted in a training step, as it is sent. Without the area under a
// curve, which has no sum.
void SetMetrics(const Metrics& metrics, v1::ComputeGradientResult* result);

// What was counted on the test set.
void SetMetrics(const Metrics& metrics, v1::Evaluation* evaluation);

// Adds the buckets of each output that has a calibration.
void AddCalibrationBuckets(const Metrics& metrics, v1::Evaluation* evaluation);

// All of it, so that MetricsOf gives the same bits. INVALID_ARGUMENT if the
// message is none that this can have made.
v1::BatchMetrics BatchMetricsOf(const Metrics& metrics);
absl::StatusOr<Metrics> MetricsOf(const v1::BatchMetrics& message);

}  // namespace paramd

#endif  // PARAMD_WORKER_METRIC_MESSAGES_H_
