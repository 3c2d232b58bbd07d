#include "tests/sim/scale_witness.h"

#include "absl/strings/str_cat.h"

namespace paramd {

void ScaleWitness::Asked(uint32_t tasks) {
  scaled_to_ = all_;
  is_under_way_ = true;
  for (uint32_t task = tasks; task < all_; ++task) left_out_.insert(task);
}

void ScaleWitness::Scaled(uint32_t tasks) {
  scaled_to_ = tasks;
  is_under_way_ = false;
  std::erase_if(left_out_, [tasks](uint32_t task) { return task < tasks; });
}

absl::Status ScaleWitness::Check(const v1::Configuration& configuration) const {
  for (const v1::ServerMember& server : configuration.servers()) {
    const bool is_beyond =
        (server.has_peer() &&
         TaskOfPlace(places_, server.peer()) >= scaled_to_) ||
        (server.has_backup() &&
         TaskOfPlace(places_, server.backup().peer()) >= scaled_to_);
    if (!is_beyond) continue;
    return absl::DataLossError(
        absl::StrCat("ps-", server.index(), " or its backup is beyond the ",
                     scaled_to_, " ps that the job was scaled to"));
  }
  return absl::OkStatus();
}

}  // namespace paramd
