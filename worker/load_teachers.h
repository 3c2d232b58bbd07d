#ifndef PARAMD_WORKER_LOAD_TEACHERS_H_
#define PARAMD_WORKER_LOAD_TEACHERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "compute/model/network.h"
#include "compute/model/network_plan.h"
#include "compute/model/teachers.h"
#include "input/batch.h"
#include "input/pipeline.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// The teachers of the setting `distill`: models and weights out of checkpoints,
// and files of labels, which know already what a model says.
//
// Their errors are sentences that name the teacher: INVALID_ARGUMENT if it is
// the job's own run or one that has not finished; if its checkpoint is not
// there, is damaged, or was trained by a program; if it has no classes, or the
// student others; or if it reads what the student's data have not; of a file
// also as TaughtLabels::Open. UNAVAILABLE if its files can't be read just now.

// Checks that numbers of the training data mean what they meant to each
// teacher, and has their batches say what files of labels say of them
// (Pipeline::Teach), and their description which models teach. REQUIRES:
// nothing of them is read yet.
absl::Status PrepareToLearn(const v1::JobConfig& job, Pipeline* training);

// Where the teachers compute: see Network::Create.
struct TeacherDevices {
  Network::MakeDevice make;
  std::string name = "cpu";
  std::vector<Network::MakeDevice> of_replicas = {};
};

// The teachers of a student of this plan, whose examples look like this and
// come from a pipeline that is prepared. REQUIRES: the job has some.
// INVALID_ARGUMENT also if the student has no classes.
absl::StatusOr<std::unique_ptr<Teachers>> LoadTeachers(
    const v1::JobConfig& job, const InputSpec& input,
    const NetworkPlan& student, const TeacherDevices& devices);

}  // namespace paramd

#endif  // PARAMD_WORKER_LOAD_TEACHERS_H_
