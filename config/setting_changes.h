#ifndef PARAMD_CONFIG_SETTING_CHANGES_H_
#define PARAMD_CONFIG_SETTING_CHANGES_H_

#include <string>
#include <vector>

#include "config/cluster_agreement.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// The job-wide settings of a config whose defaults are filled in, "epochs=5",
// in the order of config.proto. Equal for equal jobs, however they were
// written.
std::vector<std::string> RecordedSettings(const v1::JobConfig& config);

// In what the job differs from the one that a run was recorded with: `ours` is
// what the job says now, `theirs` what the run has. An empty value: not there.
struct SettingChanges {
  std::vector<Difference> may;      // A run may go on so.
  std::vector<Difference> may_not;  // It would be another run.
};

// `recorded`: RecordedSettings of then; a setting that they lack, as those of
// an earlier version may, has its default. Where checkpoint.allow_missing names
// variables that may be others, the model may be another one too. There may be
// more replicas, or fewer; of a global batch each then has another share. A
// recompute around layers is no difference: they are counted as if it was not
// there. A capacity may be another one, but not come or go.
SettingChanges ChangesSince(const std::vector<std::string>& recorded,
                            const v1::JobConfig& job);

// "seed is 7, was 1; optimizer.sgd.momentum is not there, was 0.9".
std::string ChangesText(const std::vector<Difference>& changes);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTING_CHANGES_H_
