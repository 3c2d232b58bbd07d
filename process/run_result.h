#ifndef PARAMD_PROCESS_RUN_RESULT_H_
#define PARAMD_PROCESS_RUN_RESULT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "process/terminal/dashboard.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// What the chief wrote about the end of a run into `<run_dir>/result.json`.
// NotFound if there is none, DataLoss if it is not what it should be.
absl::StatusOr<v1::WriteResult> ReadRunResult(absl::string_view run_dir);

// Takes over what a result says; paths are shown from the working directory.
void FillEnd(const v1::WriteResult& result, EndView* view);

// Makes a view, whose newest figures may be a second old, say what the result
// says: all epochs done, all pushes counted, the last checkpoint.
void FinishView(const v1::WriteResult& result, ClusterView* view);

}  // namespace paramd

#endif  // PARAMD_PROCESS_RUN_RESULT_H_
