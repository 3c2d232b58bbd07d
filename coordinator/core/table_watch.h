#ifndef PARAMD_COORDINATOR_CORE_TABLE_WATCH_H_
#define PARAMD_COORDINATOR_CORE_TABLE_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "google/protobuf/repeated_field.h"

#include "base/time.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Whether keyed variables have room for their keys, by what servers say of
// their rows. A table that is too small trains without an error and learns
// less.
//
// Not thread-safe: lives inside the coordinator's core.
class TableWatch {
 public:
  using Tables = google::protobuf::RepeatedPtrField<v1::TableStats>;

  explicit TableWatch(uint32_t servers) : all_servers_(servers) {}

  // What server `server`, which is filled, said last; empty if it has no such
  // variable.
  void Told(uint32_t server, const Tables& tables);

  // A sentence for each table that is too small: see TableWarning. None until
  // each server has said what it has: of a part of a table nobody knows how
  // large all of it is.
  std::vector<std::string> Warnings() const;
  // The same to log: at most once a minute, and only if rows were taken or
  // gradients dropped meanwhile.
  std::vector<std::string> TakeNotes(Time now);

 private:
  bool knows_all() const { return servers_.size() >= all_servers_; }
  Tables Together() const;

  const size_t all_servers_;
  std::map<uint32_t, Tables> servers_;
  // Rows taken and gradients dropped, of all servers as they said last; and
  // how many of them were looked at.
  uint64_t lost_ = 0;
  uint64_t noted_ = 0;
  Time next_look_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_TABLE_WATCH_H_
