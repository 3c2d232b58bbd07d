#ifndef PARAMD_TESTS_SIM_STEP_WITNESS_H_
#define PARAMD_TESTS_SIM_STEP_WITNESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/sequential_steps.h"
#include "tests/sim/simulation_watcher.h"
#include "tests/sim/storage.h"
#include "tests/sim/workload_report.h"

namespace paramd {

// Sees what coordinators decide and servers answer in a job that is in sync
// mode or may come to be, and fails the run if
//  - a step is of other contributions for one server than for another;
//  - a contribution is taken for a step that the server has applied without it;
//  - a pull is answered before the step that it is to see;
//  - what was pushed to a step is applied by itself, or a push of another mode
//    is kept for a step;
//  - a mode is told that is not in the log;
//  - a session reports an evaluation of weights that another one pulled.
// It counts pushes and chunks, and notes rare branches.
//
// Not thread-safe. Storage and report outlive it.
class StepWitness : public SimulationWatcher {
 public:
  using Fail = std::function<void(absl::Status)>;

  StepWitness(const SimStorage& storage, WorkloadReport* report, Fail fail)
      : storage_(storage), report_(*report), fail_(std::move(fail)) {}

  // What the steps that a checkpoint has are of: as the newest contributors of
  // its term decided each; those that this term found, as that one did whose
  // checkpoint it went on from. kDataLoss if one was not decided.
  absl::StatusOr<std::vector<DecidedStep>> StepsOf(
      const v1::Manifest& manifest) const;
  // kDataLoss unless that checkpoint of the job, whose gradients are rounded
  // ones, has the bits of one process that does its steps one after another.
  absl::Status CheckBits(const IntegerJob& job,
                         const v1::Manifest& manifest) const;

  void Sent(const SimProcess& self, PeerId to, const Head& request) override;
  void Answered(const SimProcess& self, PeerId from, const Head& request,
                const BufferChain& payload,
                const Outbox::ReplyItem& reply) override;
  void Started(const SimProcess& self, const Head& work) override;

 private:
  void CheckEvaluation(const SimProcess& self,
                       const v1::HeartbeatRequest& beat);
  void CheckDecision(PeerId to, const v1::DecideRequest& decide);
  void NoteDecision(const v1::DecideRequest& decide);
  // Of the newest checkpoint of this step that this term may have gone on from;
  // 0 if there is none.
  uint64_t TermBefore(uint64_t term, uint64_t step) const;
  void CheckMode(const v1::Configuration& configuration);
  void CheckPull(const SimProcess& self, const v1::PullRequest& pull,
                 const v1::PullReply& reply);
  void CheckPush(const SimProcess& self, const v1::PushRequest& push,
                 const v1::PushReply& reply);
  void CountRefusal(const absl::Status& status);
  template <typename... Parts>
  void Wrong(const Parts&... parts);

  const SimStorage& storage_;
  WorkloadReport& report_;
  const Fail fail_;
  // By contributors and step, what it is of.
  std::map<std::pair<std::string, uint64_t>, std::string> decided_;
  struct Decided {
    v1::ContributorsVersion contributors;
    DecidedStep step;
  };
  // By step and the term of its coordinator.
  std::map<uint64_t, std::map<uint64_t, Decided>> steps_;
  // By version.
  std::map<std::string, v1::Contributors> contributors_;
  // By worker: the session of its newest heartbeat, and of what it evaluates or
  // has evaluated last.
  std::map<SimProcess, v1::SessionId> session_;
  std::map<SimProcess, v1::SessionId> evaluates_;
  // By server and contributors, the newest step applied.
  std::map<std::pair<PeerId, std::string>, uint64_t> applied_;
  size_t log_read_ = 0;
  // By term.
  std::set<std::pair<uint64_t, std::string>> logged_modes_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_STEP_WITNESS_H_
