#ifndef PARAMD_TESTS_SIM_TERM_WITNESS_H_
#define PARAMD_TESTS_SIM_TERM_WITNESS_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "tests/sim/simulation_watcher.h"

namespace paramd {

// Sees which coordinators a server obeys: none of a lower term than one that it
// has obeyed before.
class TermWitness {
 public:
  // `self` answers the request of a coordinator, or any other one. kDataLoss if
  // it should have refused.
  absl::Status Obeyed(const SimProcess& self,
                      const google::protobuf::Message& request);

 private:
  std::map<SimProcess, uint64_t> terms_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_TERM_WITNESS_H_
