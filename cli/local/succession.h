#ifndef PARAMD_CLI_LOCAL_SUCCESSION_H_
#define PARAMD_CLI_LOCAL_SUCCESSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace paramd {

// What a supervisor tells the processes that it starts for a task, one after
// the other: who each is, and which one it replaces. Who saw a process end can
// vouch for that; so its successor is taken at once, and nobody waits for a
// lease.
//
// Not thread-safe.
class Succession {
 public:
  // Arguments of `paramd run` for the next process of `task`. REQUIRES: the
  // one before has ended.
  std::vector<std::string> NextOf(const std::string& task);

 private:
  std::map<std::string, uint64_t> newest_;  // By task.
};

}  // namespace paramd

#endif  // PARAMD_CLI_LOCAL_SUCCESSION_H_
