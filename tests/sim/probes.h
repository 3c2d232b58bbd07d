#ifndef PARAMD_TESTS_SIM_PROBES_H_
#define PARAMD_TESTS_SIM_PROBES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paramd {

// How often rare branches were reached, by what was seen of them from outside:
// refusals, notes and answers. A suite that never reached one proves nothing
// about it.
//
// Not thread-safe.
class Probes {
 public:
  void Hit(absl::string_view name, uint64_t times = 1) {
    hits_[std::string(name)] += times;
  }
  void Add(const Probes& other);
  uint64_t Of(absl::string_view name) const;
  // Of those that a suite must reach, the ones that were not.
  std::vector<std::string> Missing() const;
  // A line for each probe that is known or was hit, those never reached first.
  std::string ToString() const;

  // What a run of many seeds must reach.
  static const std::vector<std::string>& Required();

 private:
  std::map<std::string, uint64_t> hits_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_PROBES_H_
