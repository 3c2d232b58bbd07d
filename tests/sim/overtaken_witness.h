#ifndef PARAMD_TESTS_SIM_OVERTAKEN_WITNESS_H_
#define PARAMD_TESTS_SIM_OVERTAKEN_WITNESS_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/types.pb.h"
#include "tensor/message.h"

namespace paramd {

// Sees what places of servers answer to pushes and pulls: when a server has
// applied a push under a new life, no place reads under an earlier one.
class OvertakenWitness {
 public:
  // kDataLoss if `place`, of `server`, answers what it may not. `reply` may be
  // null or any.
  absl::Status Answered(PeerId place, uint32_t server,
                        const google::protobuf::Message* reply);

 private:
  std::map<uint32_t, v1::ServerLife> has_applied_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_OVERTAKEN_WITNESS_H_
