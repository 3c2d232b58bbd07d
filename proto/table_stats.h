#ifndef PARAMD_PROTO_TABLE_STATS_H_
#define PARAMD_PROTO_TABLE_STATS_H_

#include <string>

#include "google/protobuf/repeated_field.h"

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Adds what one server, or a part of one, says of its rows of a keyed variable
// to what others have said of theirs: counts add up.
void AddTable(const v1::TableStats& part,
              google::protobuf::RepeatedPtrField<v1::TableStats>* tables);

// What is wrong with a table, all servers together, in a sentence with the
// capacity that would do: too many rows have been another key's, or too many
// gradients were dropped because no row was left. Empty: nothing is.
std::string TableWarning(const v1::TableStats& table);

}  // namespace paramd

#endif  // PARAMD_PROTO_TABLE_STATS_H_
