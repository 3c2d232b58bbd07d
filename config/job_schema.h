#ifndef PARAMD_CONFIG_JOB_SCHEMA_H_
#define PARAMD_CONFIG_JOB_SCHEMA_H_

#include <string>

namespace paramd {

// A JSON Schema (draft 7) of the job file, for editors: names, types, bounds,
// defaults and sentences of every setting, short forms included. Ends with a
// line break. Made from config.proto alone: the same for every run.
std::string JobSchema();

}  // namespace paramd

#endif  // PARAMD_CONFIG_JOB_SCHEMA_H_
