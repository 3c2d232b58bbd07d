#include "tests/sim/term_witness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "proto/member_name.h"
#include "proto/paramd/v1/control.pb.h"

namespace paramd {

absl::Status TermWitness::Obeyed(const SimProcess& self,
                                 const google::protobuf::Message& request) {
  uint64_t term = 0;
  if (const auto* recall = dynamic_cast<const v1::RecallRequest*>(&request)) {
    term = recall->header().term();
  } else if (const auto* told =
                 dynamic_cast<const v1::ConfigureRequest*>(&request)) {
    term =
        std::max(told->header().term(), told->configuration().version().term());
  } else {
    return absl::OkStatus();
  }
  uint64_t& highest = terms_[self];
  if (term < highest) {
    return absl::DataLossError(
        absl::StrCat(PeerName(self.peer), " obeys the coordinator of term ",
                     term, " after that of term ", highest));
  }
  highest = term;
  return absl::OkStatus();
}

}  // namespace paramd
