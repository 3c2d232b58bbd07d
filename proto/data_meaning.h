#ifndef PARAMD_PROTO_DATA_MEANING_H_
#define PARAMD_PROTO_DATA_MEANING_H_

#include <string>

#include "absl/types/span.h"

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// "csv.hash_buckets 500, not 1000; csv.label cost, not price": in what the
// meaning of data differs from the one that is meant; empty if in nothing that
// both say. What is about the features `unread` counts for nothing.
//
// Data of another kind of source agree in nothing but types, shapes and stages.
// So they differ if one of the two sources tells its numbers apart by names or
// places of its own: csv, libsvm, a zip, and image_folders the labels.
std::string MeaningDifference(const v1::DataMeaning& ours,
                              const v1::DataMeaning& meant,
                              absl::Span<const std::string> unread = {});

}  // namespace paramd

#endif  // PARAMD_PROTO_DATA_MEANING_H_
