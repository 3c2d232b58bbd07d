#ifndef PARAMD_COORDINATOR_CORE_INPUT_LEFT_H_
#define PARAMD_COORDINATOR_CORE_INPUT_LEFT_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "coordinator/core/epochs.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// What is left of a job's input, as a set of examples, so that what several
// processes know of it can be put together.
//
// Not thread-safe.
class InputLeft {
 public:
  // [begin, end), in order and apart.
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

  // Nothing is left of a job with these epochs, which outlive it and do not
  // change.
  explicit InputLeft(const Epochs& epochs) : epochs_(&epochs) {}
  // What the job does not have is left out.
  InputLeft(const v1::SavedInput& left, const Epochs& epochs);

  void Add(const InputLeft& other);
  void Intersect(const InputLeft& other);
  void Remove(const v1::SavedInput::Range& range);
  // What is left of [begin, end) of an epoch.
  Ranges Among(uint32_t epoch, uint64_t begin, uint64_t end) const;

  // As text of a manifest. From its next example on all is left, and it is not
  // before that of `known`: what comes before is `remaining`.
  v1::SavedInput Save(const v1::SavedInput& known) const;

 private:
  // The epoch and the first example of it after which all is left.
  std::pair<uint32_t, uint64_t> Next() const;

  static Ranges Union(Ranges ranges);
  static Ranges Intersection(const Ranges& a, const Ranges& b);
  static Ranges Without(const Ranges& ranges, uint64_t begin, uint64_t end);

  const Epochs* epochs_;
  std::map<uint32_t, Ranges> left_;  // By epoch; none may be empty.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_INPUT_LEFT_H_
