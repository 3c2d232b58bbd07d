#ifndef PARAMD_TESTS_SIM_INPUT_MODEL_H_
#define PARAMD_TESTS_SIM_INPUT_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"

#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/push_ledger.h"

namespace paramd {

// Who has which batch of the input, by what coordinators handed out and logged:
// of each coordinator's term its own picture, which begins with the checkpoint
// that the term goes on from, or with what the servers hold and sessions tell.
//
// Fails the run if a batch is handed out that somebody has or that is done; if
// a worker pushes a batch that it was not given, or reports a portion as used
// up whose pushes are not whole; and if a checkpoint's input is not what the
// pushes before its cut leave. What a killed worker had whole and not reported
// is handed out again: such a batch may be done or left.
//
// Not thread-safe. The job outlives it.
class InputModel {
 public:
  explicit InputModel(const IntegerJob& job) : job_(job) {}

  // A new coordinator goes on from this checkpoint; null: from the beginning.
  void Begin(uint64_t term, const v1::Manifest* manifest);
  // A new coordinator goes on where term `before` was, whose servers keep what
  // they hold: with this input left. Fails if it leaves out a batch that is not
  // in every block, or has one done again whose holder's push is whole;
  // `lossy`: unless a server was restored by itself.
  absl::Status TakeOver(uint64_t term, uint64_t before,
                        const v1::SavedInput& left,
                        const std::set<BatchPlace>& in, bool lossy);
  // A session goes on under the coordinator that `held` names, and holds this.
  // Fails if somebody else has something of it.
  absl::Status GoesOn(const SessionKey& session, const v1::HeldInput& held);
  // The newest of these terms that had input to hand out; 0: none.
  uint64_t NewestOf(const std::function<bool(uint64_t term)>& is_one) const;
  absl::Status HandedOut(const v1::PortionRequest& request,
                         const v1::PortionReply& reply);
  // A session is gone; `in_good_order` if it said before that it leaves.
  void Fenced(const SessionKey& session, bool in_good_order);
  // Once for each handing out.
  absl::Status Pushed(const PushLedger::Push& push);
  // Every block of it is acknowledged, or its worker has given it up.
  void Whole(const PushLedger::Push& push);
  // Some push of it was given up, so it need not be in every block.
  bool WasGivenUp(const BatchPlace& batch) const {
    return given_up_.contains(batch);
  }

  // The snapshot's cut is complete: this is what its manifest must say.
  void Cut(const Number& snapshot);
  absl::Status CheckCheckpoint(const v1::Manifest& manifest) const;
  // How often each batch had been handed out when this snapshot was cut.
  uint32_t TimesHandedOut(const v1::Manifest& manifest,
                          const BatchPlace& batch) const;
  // The snapshot's manifest leaves nothing to do.
  absl::Status CheckFinished(const v1::Manifest& manifest) const;

  uint64_t handed_out_again() const { return handed_out_again_; }

 private:
  struct Batch {
    enum class State { kFree, kLeased, kDone } state = State::kFree;
    SessionKey holder;
    uint64_t portion = 0;
    bool pushed = false;     // By its holder,
    bool whole = false;      // whose push of it is whole
    Number stamp;            // and has this one.
    bool was_whole = false;  // That of a session that was killed.
    // Done, by such a session; the holder goes on, and makes it again.
    bool is_held = false;
    uint32_t times = 0;
  };
  struct Term {
    std::map<BatchPlace, Batch> batches;
    std::map<SessionKey, uint64_t> answered;  // Newest portion request.
  };

  // That of the coordinator which the session has told last what it holds.
  Term& TermOf(const SessionKey& session);

  const IntegerJob& job_;
  std::map<uint64_t, Term> terms_;
  // Of sessions that go on; else that of their generation.
  std::map<SessionKey, uint64_t> goes_on_in_;
  std::set<SessionKey> fenced_;
  std::set<BatchPlace> given_up_;
  std::map<Number, std::map<BatchPlace, Batch>> cuts_;
  uint64_t handed_out_again_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INPUT_MODEL_H_
