#ifndef PARAMD_WORKER_STAGES_TESTING_STAGES_OF_CASE_H_
#define PARAMD_WORKER_STAGES_TESTING_STAGES_OF_CASE_H_

#include "compute/pipeline/testing/cut_cases.h"
#include "proto/paramd/v1/config.pb.h"
#include "worker/model_factory.h"

namespace paramd {

// What a stage process makes of a cut model, on the test device, as StagesOf
// does of a job.
MakeStages StagesOfCase(const CutCase& one, const v1::PipelineConfig& pipeline);

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_TESTING_STAGES_OF_CASE_H_
