#ifndef PARAMD_PROTO_METRIC_VALUES_H_
#define PARAMD_PROTO_METRIC_VALUES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

using MetricSums = google::protobuf::RepeatedPtrField<v1::MetricSum>;

// What the model counts besides the loss: the accuracy first, the others in the
// order of their names. An evaluation by a version that sent counts alone has
// the accuracy they give.
std::vector<std::pair<std::string, double>> MetricValues(
    const v1::Evaluation& evaluation);

// The same of a slice.
std::vector<std::pair<std::string, double>> MetricValues(
    const v1::EvaluatedSlice& slice);

// "device=2".
std::string SliceName(const v1::EvaluatedSlice& slice);

// What each slice has, as a name where there is one name for each number:
// "auc/device=2", the loss first, then as MetricValues has them.
std::vector<std::pair<std::string, double>> SliceValues(
    const v1::Evaluation& evaluation);

// For a log: "accuracy 0.8813, loss 0.33".
std::string EvaluationText(const v1::Evaluation& evaluation);

// NaN if nothing was counted.
double MetricValue(const v1::MetricSum& sum);

// Adds `more` to what has the same name, or after it; Subtract takes it away.
void AddMetrics(const MetricSums& more, MetricSums* sums);
void SubtractMetrics(const MetricSums& less, MetricSums* sums);

// Of two values of this metric ("loss", "mse" and so on) the lower is better.
bool LowerIsBetter(absl::string_view metric);

}  // namespace paramd

#endif  // PARAMD_PROTO_METRIC_VALUES_H_
