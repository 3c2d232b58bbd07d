#ifndef PARAMD_WORKER_STRATEGY_PLAN_H_
#define PARAMD_WORKER_STRATEGY_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "worker/core/input_leases.h"
#include "worker/core/worker_turn.h"
#include "worker/strategy/steps.h"

namespace paramd {

// What a worker does with a step once it has input: which weights it waits for,
// where gradients go, what ends a step. The worker's core keeps the session,
// heartbeats, portions, cuts and evaluations.
//
// A plan is of one session and one mode. It has no wire of its own: it starts
// pulls, computations and pushes on the session's Steps, and is told what came
// of them.
//
// Not thread-safe: part of a worker's core.
class Plan {
 public:
  struct Options {
    uint32_t worker = 0;
    uint64_t examples = 0;               // In the training set; for sync mode.
    const v1::JobConfig* job = nullptr;  // Outlives the plan.
  };
  // What the core knows at one event.
  struct View {
    uint64_t clock = 0;
    v1::SnapshotNumber stamp = {};  // Of the newest cut.
    bool draining = false;          // Nothing new begins.
    bool stop = false;              // Nothing is pushed.
  };

  // That of the configuration's mode.
  static std::unique_ptr<Plan> Create(const v1::Configuration& configuration,
                                      const Options& options, Steps* steps,
                                      InputLeases* input);
  virtual ~Plan() = default;

  // The mode that it is for; another one needs another plan.
  virtual bool Fits(v1::Consistency::Mode mode) const = 0;
  // The configuration of the session, or a newer one.
  virtual void Configure(const v1::Configuration& configuration,
                         const v1::SessionId& generation) = 0;
  // Begins what may begin now.
  virtual void Advance(const View& view, WorkerTurn* turn) = 0;

  // The weights of the newest pull have come.
  virtual void Pulled() {}
  // A push is in, given up, or refused for its numbers.
  virtual void PushEnded(const TrainingStep& /*step*/) {}
  // This step has been decided without this worker's share of it. False:
  // nothing of it was being done.
  virtual bool LeftOut(uint64_t /*step*/, WorkerTurn* /*turn*/) {
    return false;
  }
  // The same, said by a server to the open push.
  virtual void Late(uint64_t /*decided*/, WorkerTurn* /*turn*/) {}

  // Input comes in portions of the coordinator's.
  virtual bool takes_portions() const = 0;
  // The job goes on without a push.
  virtual bool may_give_up_pushes() const = 0;
  // Nothing is left to do for as long as no more input comes.
  virtual bool finished() const = 0;
  // Examples of one push.
  virtual uint64_t examples_per_push() const = 0;
  // Beside servers; empty: for nobody.
  virtual std::string waiting_for(const v1::SessionId& /*generation*/) const {
    return "";
  }
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_PLAN_H_
