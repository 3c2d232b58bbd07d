#ifndef PARAMD_PROCESS_OBSERVE_CLUSTER_REPORT_H_
#define PARAMD_PROCESS_OBSERVE_CLUSTER_REPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"

#include "proto/paramd/v1/report.pb.h"

namespace paramd {

// Asks the processes at these addresses for their status; answers in order.
using AskStatus = std::function<std::vector<absl::StatusOr<v1::StatusReply>>(
    const std::vector<std::string>& addresses)>;

// What a whole cluster says, beginning with the process at `address`: from it
// to the chief, if it is told where that is, and from the chief to every member
// of the job. In at most three rounds of questions.
//
// The error of `ask` for `address` itself, naming it. Whoever else does not
// answer is a part of the report.
absl::StatusOr<v1::ClusterReport> MakeClusterReport(const std::string& address,
                                                    const AskStatus& ask);

// Rows of keyed variables on all servers, by name, each with what is wrong with
// it if every server has answered.
google::protobuf::RepeatedPtrField<v1::TableStats> TablesOf(
    const v1::ClusterReport& report);

// What operators have set while the job runs, a line each.
std::string RenderSettings(const v1::JobStats& job);

// The report as people read it.
std::string RenderReport(const v1::ClusterReport& report);

// The report as programs read it: one object, keys in snake_case, each there
// even where its value is zero or empty; objects that do not apply are left
// out. Ends with a line break. An error if a text in it is no UTF-8.
absl::StatusOr<std::string> ReportJson(const v1::ClusterReport& report);

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_CLUSTER_REPORT_H_
