#include "tests/sim/overtaken_witness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "proto/member_name.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

bool HasAppliedAny(const v1::PushReply& reply) {
  return std::any_of(reply.blocks().begin(), reply.blocks().end(),
                     [](const v1::PushedBlock& block) {
                       return block.result() == v1::PushedBlock::APPLIED;
                     }) ||
         std::count(reply.row_results().begin(), reply.row_results().end(),
                    static_cast<int>(v1::PushedBlock::APPLIED)) > 0;
}

}  // namespace

absl::Status OvertakenWitness::Answered(
    PeerId place, uint32_t server, const google::protobuf::Message* reply) {
  const auto* pushed = dynamic_cast<const v1::PushReply*>(reply);
  const auto* pulled = dynamic_cast<const v1::PullReply*>(reply);
  if (pushed == nullptr && pulled == nullptr) return absl::OkStatus();
  v1::ServerLife& newest = has_applied_[server];
  if (pushed != nullptr && HasAppliedAny(*pushed)) {
    newest = std::max(newest, pushed->server_generation());
  }
  // That a push is in is true wherever it is said.
  if (pulled == nullptr && !pushed->has_pulled()) return absl::OkStatus();
  const v1::ServerLife& life = pulled != nullptr
                                   ? pulled->server_generation()
                                   : pushed->pulled().server_generation();
  if (!(life < newest)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      PeerName(place), " answers as generation ", VersionName(life), " of ps-",
      server, ", and generation ", VersionName(newest), " has applied a push"));
}

}  // namespace paramd
