#ifndef PARAMD_SERVER_CORE_DESCRIBE_SLICES_H_
#define PARAMD_SERVER_CORE_DESCRIBE_SLICES_H_

#include <vector>

#include "proto/paramd/v1/status.pb.h"
#include "server/core/slice.h"

namespace paramd {

// What a server tells people of its slices.

using TableStatsList = google::protobuf::RepeatedPtrField<v1::TableStats>;

// Of keyed variables: what is counted as they change.
void CountTables(const std::vector<Slice*>& slices, TableStatsList* counted);
// The same, and how many rows have a key, for which blocks that were not used
// yet are looked through. REQUIRES: filled.
void DescribeTables(const std::vector<Slice*>& slices,
                    TableStatsList* described);
// The slices whose blocks were named most, as in ServerStats.
void DescribeHottest(
    const std::vector<Slice*>& slices,
    google::protobuf::RepeatedPtrField<v1::SliceStats>* described);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_DESCRIBE_SLICES_H_
