#ifndef PARAMD_CONFIG_READ_JOB_H_
#define PARAMD_CONFIG_READ_JOB_H_

#include <string>

#include "absl/types/optional.h"

#include "config/job_config.h"
#include "config/mistakes.h"
#include "config/setting_reader.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// What LoadJob reads, source by source. What is wrong is added to `mistakes`,
// the reader's.

// What the file says, and what flags and variables say of the stages in it,
// with the defaults of these. False if nothing can be made of the file.
bool ReadFileAndStages(const JobSources& sources, SettingReader* reader,
                       Mistakes* mistakes, v1::JobConfig* config);

// `number`, or else that of the stage that `sources` name; -1 for a job without
// stages. Nothing if none is named, or one that is not there.
absl::optional<int> ChooseStage(const JobSources& sources,
                                absl::optional<int> number,
                                const v1::JobConfig& config,
                                const SettingReader& reader,
                                Mistakes* mistakes);

// Of the variables and of the flags those that are about the stages, or the
// others. The former returns the warning about variables that are no settings,
// or "".
std::string ReadVariables(const JobSources& sources, bool of_stages,
                          SettingReader* reader, v1::JobConfig* config);
void ReadFlags(const JobSources& sources, bool of_stages, SettingReader* reader,
               v1::JobConfig* config);

}  // namespace paramd

#endif  // PARAMD_CONFIG_READ_JOB_H_
