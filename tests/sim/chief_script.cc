#include "tests/sim/chief_script.h"

#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

ChiefScript::ChiefScript(uint64_t seed, ElectedChiefs* chiefs,
                         ReplicaMembers* members, const SimStorage& storage,
                         Simulation* simulation)
    : random_(StableHash("elected chiefs are hurt", seed)),
      chiefs_(*chiefs),
      members_(*members),
      storage_(storage),
      simulation_(*simulation) {}

void ChiefScript::End(std::function<void()> settled) {
  is_over_ = true;
  if (members_.IsChiefThere() && chiefs_.IsSettled()) return settled();
  simulation_.At(simulation_.elapsed() + absl::Seconds(1),
                 [this, settled] { End(settled); });
}

// For longer or shorter than the lease, so that another one is elected or not.
absl::Duration ChiefScript::DrawOutage() {
  return absl::Milliseconds(3000 + random_.Below(22000));
}

void ChiefScript::Hurt() {
  if (is_over_ || !storage_.results().empty()) return;
  if (!MayBeHurt() || !chiefs_.is_led()) {
    simulation_.At(simulation_.elapsed() + absl::Milliseconds(200),
                   [this] { Hurt(); });
    return;
  }
  ++hurt_;
  const absl::Duration time = DrawOutage();
  switch (const uint64_t kind = random_.Below(10)) {
    case 0:
    case 1:
      members_.ChiefIsDown();
      return chiefs_.Kill();
    case 2:
      members_.ChiefIsDown();
      return chiefs_.Drain();
    case 3:  // Leases end meanwhile, too.
      MayBeFollowed(time);
      return chiefs_.GoAway(time);
    case 4:
      cut_off_until_ = simulation_.elapsed() + time;
      return simulation_.CutOff(PeerId::Coordinator(), time);
    case 5:
      pauses_before_ = random_.Chance(0.7) ? v1::CommitCheckpoint::descriptor()
                                           : v1::AppendLog::descriptor();
      return;
    case 6:
    case 7:
      MayBeFollowed(time);
      return chiefs_.Pause(time, /*at_ask=*/kind == 6);
    default:
      MayBeFollowed(time);
      return chiefs_.CutOff(static_cast<ElectedChiefs::Way>(random_.Below(3)),
                            time);
  }
}

// Nobody else is hurt until there is another chief, or none can come of it any
// more.
void ChiefScript::MayBeFollowed(absl::Duration time) {
  members_.ChiefIsDown();
  simulation_.At(simulation_.elapsed() + time + absl::Seconds(40),
                 [this, led = chiefs_.led()] {
                   if (chiefs_.led() == led) members_.ChiefIsBack();
                 });
}

void ChiefScript::Started(const SimProcess& self,
                          const google::protobuf::Message& work) {
  if (is_over_ || !chiefs_.IsLedBy(self)) return;
  // Followed before it has read the log, and unable to ask who leads.
  const bool reads = work.GetDescriptor() == v1::ReadLog::descriptor() &&
                     chiefs_.led() > 1 && random_.Chance(0.3);
  const bool writes = work.GetDescriptor() == pauses_before_ && MayBeHurt();
  if (!reads && !writes) return;
  if (writes) pauses_before_ = nullptr;
  // Nothing is to be done to a node that is at work.
  simulation_.At(simulation_.elapsed(),
                 [this, self, reads] { PauseNow(self, reads); });
}

void ChiefScript::PauseNow(const SimProcess& self, bool reads) {
  if (!chiefs_.IsLedBy(self)) return;
  const absl::Duration time =
      DrawOutage() + (reads ? absl::Seconds(8) : absl::ZeroDuration());
  MayBeFollowed(time);
  if (reads) {
    chiefs_.CutOff(ElectedChiefs::Way::kBoth, time + absl::Seconds(20));
  }
  chiefs_.Pause(time, /*at_ask=*/false);
}

}  // namespace paramd
