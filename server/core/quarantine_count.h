#ifndef PARAMD_SERVER_CORE_QUARANTINE_COUNT_H_
#define PARAMD_SERVER_CORE_QUARANTINE_COUNT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Counts, by worker, the pushes of which this server has refused something
// because of its numbers, and says so: for each worker the 1st, 2nd, 4th, 8th …
// time.
//
// Bound: the workers whose pushes are let in.
//
// Not thread-safe: lives inside a ShardContent.
class QuarantineCount {
 public:
  // A chunk of the push in `header` was refused with this sentence. Further
  // chunks of the push, and the same one again, do not count.
  void Add(const v1::Header& header, absl::string_view sentence);

  // Pushes of a worker so far.
  uint64_t pushes(uint32_t worker) const;
  // Of all workers together.
  uint64_t total() const;

  // What is to be logged since the last call.
  std::vector<std::string> TakeNotes();

 private:
  struct Entry {
    v1::SessionId generation;
    uint64_t sequence = 0;
    uint64_t pushes = 0;
  };
  std::map<uint32_t, Entry> entries_;
  std::vector<std::string> notes_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_QUARANTINE_COUNT_H_
