#ifndef PARAMD_COORDINATOR_CORE_TOLD_MARK_H_
#define PARAMD_COORDINATOR_CORE_TOLD_MARK_H_

#include <cstdint>
#include <map>
#include <utility>

#include "coordinator/core/members.h"
#include "proto/refusal.h"

namespace paramd {

// A moment, and whether every worker has told its figures since then: if so,
// they include everything that was done before. A worker that is gone tells
// nothing more.
//
// Not thread-safe: lives inside the coordinator's core.
class ToldMark {
 public:
  using Workers = std::map<uint32_t, WorkerRecord>;

  bool is_set() const { return is_set_; }
  // Now.
  void Set(const Workers& workers) {
    Clear();
    is_set_ = true;
    for (const auto& [index, worker] : workers) {
      if (worker.fencing) continue;
      heartbeats_[index] = {worker.generation, worker.last.number()};
    }
  }
  void Clear() {
    is_set_ = false;
    heartbeats_.clear();
  }
  // REQUIRES: is_set().
  bool IsPassed(const Workers& workers) const {
    for (const auto& [index, then] : heartbeats_) {
      const auto worker = workers.find(index);
      if (worker == workers.end() || worker->second.fencing ||
          worker->second.generation != then.first) {
        continue;
      }
      if (worker->second.last.number() <= then.second) return false;
    }
    return true;
  }

 private:
  bool is_set_ = false;
  // Of each session, its newest then.
  std::map<uint32_t, std::pair<v1::SessionId, uint64_t>> heartbeats_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_TOLD_MARK_H_
