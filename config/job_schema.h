#ifndef PARAMD_CONFIG_JOB_SCHEMA_H_
#define PARAMD_CONFIG_JOB_SCHEMA_H_

#include <string>

#include "google/protobuf/descriptor.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// A JSON Schema (draft 7) of the job file, for editors: names, types, bounds,
// defaults and sentences of every setting, short forms included. Ends with a
// line break. Made from the descriptor alone: the same for every run.
//
// What may hold itself stands once among the definitions.
std::string JobSchema(
    const google::protobuf::Descriptor& job = *v1::JobConfig::descriptor());

}  // namespace paramd

#endif  // PARAMD_CONFIG_JOB_SCHEMA_H_
