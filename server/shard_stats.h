#ifndef PARAMD_SERVER_SHARD_STATS_H_
#define PARAMD_SERVER_SHARD_STATS_H_

#include "google/protobuf/repeated_field.h"

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What the shards of a server have and did together: sums, but for the step,
// which is that of the last of them, and `restored`, which all have to be.
v1::ServerStats TogetherOf(
    const google::protobuf::RepeatedPtrField<v1::ServerStats>& shards);

}  // namespace paramd

#endif  // PARAMD_SERVER_SHARD_STATS_H_
