// Whatever workers say to the chief, a round is of workers of the job and of
// none that has left it, and its answer is one that the worker accepts; and
// whatever a chief answers, a worker is in a round that has a place for it, or
// refuses. An input is a list of choices, each of a byte, and messages: a beat,
// or with kAnswer an answer to worker 1.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "base/time.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/rendezvous/round_member.h"

namespace paramd {
namespace {

constexpr uint32_t kWorkers = 3;
constexpr int kMostEvents = 100;
// Bits of a choice; the lower ones say how much time passes.
constexpr uint8_t kFinish = 0x80;
constexpr uint8_t kAnswer = 0x40;
constexpr uint8_t kTime = 0x3f;

class Rounds {
 public:
  Rounds()
      : rendezvous_({.workers = kWorkers,
                     .lost_after = absl::Seconds(5),
                     .patience = absl::Minutes(1),
                     .fewest = 2}) {}

  void Say(uint8_t choice, absl::string_view message) {
    // 2^`time` microseconds: from none worth naming to 12 days.
    now_ =
        now_ + absl::Microseconds(int64_t{1} << std::min(choice & kTime, 40));
    if ((choice & kFinish) != 0) rendezvous_.Finish();
    if ((choice & kAnswer) != 0) return Answer(message);
    v1::BeatRequest beat;
    if (!beat.ParseFromArray(message.data(),
                             static_cast<int>(message.size()))) {
      return;
    }
    const auto reply = rendezvous_.Beat(beat, now_);
    LookAtAll();
    if (!reply.ok()) return fuzz::CheckRefusal(reply.status());
    CHECK(beat.incarnation() != 0 && rendezvous_.IsHeard(beat.worker(), now_),
          "who is answered is a process, and was heard");
    CHECK(CheckReply(*reply, beat.worker(), kWorkers).ok(),
          "a worker accepts what the chief answers");
    CHECK(reply->round() == 0 || reply->round() > beat.left(),
          "nobody is in a round that it has left");
  }

 private:
  void Answer(absl::string_view message) {
    v1::BeatReply reply;
    if (!reply.ParseFromArray(message.data(),
                              static_cast<int>(message.size()))) {
      return;
    }
    const absl::Status status = CheckReply(reply, /*worker=*/1, kWorkers);
    if (!status.ok()) return fuzz::CheckRefusal(status);
    member_.Hear(reply);
    if (!member_.is_in_one()) return;
    CHECK(member_.rank() < static_cast<size_t>(member_.round().workers_size()),
          "a worker has a place in its round");
    CHECK(member_.round().round() > member_.said().left(),
          "a round comes after those that were left");
    member_.VerdictOf(/*has_sums=*/true);
  }

  // As a status page does.
  void LookAtAll() const {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      const auto silent = rendezvous_.SilentFor(worker, now_);
      CHECK(!silent.has_value() || *silent >= absl::ZeroDuration(),
            "nobody was heard in the future");
    }
    rendezvous_.AllKnowTheEnd(now_);
    rendezvous_.EverybodyKnowsTheEnd();
  }

  Rendezvous rendezvous_;
  RoundMember member_{/*worker=*/1, /*incarnation=*/11};
  Time now_ = Time() + absl::Hours(1);
};

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::Pieces pieces(data, size);
  paramd::Rounds rounds;
  for (int i = 0; i < paramd::kMostEvents && !pieces.done(); ++i) {
    const uint8_t choice = pieces.Byte();
    rounds.Say(choice, pieces.TakeSized());
  }
  return 0;
}
