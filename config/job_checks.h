#ifndef PARAMD_CONFIG_JOB_CHECKS_H_
#define PARAMD_CONFIG_JOB_CHECKS_H_

#include "config/mistakes.h"
#include "config/setting_reader.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// Adds to `mistakes` which settings of a job do not go together, and those
// whose text says nothing that paramd knows, each at its place. What is known
// to be wrong already is not said again. REQUIRES: `reader` has read the job,
// and defaults are filled in.
void CheckJob(const v1::JobConfig& config, const SettingReader& reader,
              Mistakes* mistakes);

}  // namespace paramd

#endif  // PARAMD_CONFIG_JOB_CHECKS_H_
