#ifndef PARAMD_TESTS_SIM_SESSION_MODEL_H_
#define PARAMD_TESTS_SIM_SESSION_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "tests/sim/content_model.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/push_ledger.h"

namespace paramd {

// What each worker may count as acknowledged, by the answers that reached it:
// a push is whole when every block of it was acknowledged by the server
// generation that the worker's newest configuration names.
//
// Fails the run if a worker opens a push before the one before is whole, while
// it is told to stop, or with another stamp than that of the newest snapshot it
// heard of; if it resends one that it has left behind; if it tells the
// coordinator of more pushes than are whole, or of a cut that is not the push
// that it had opened last when it heard of the snapshot; and if a push that is
// whole is not in the content of every server generation that acknowledged it.
//
// A push that is given up is open no longer: it counts as whole in all that its
// worker tells, whatever of it is in. So is one that a server refuses for its
// numbers.
//
// Not thread-safe. Job, ledger and content outlive it.
class SessionModel {
 public:
  using WhenWhole = std::function<absl::Status(PushLedger::PushIndex)>;

  // `when_whole` is called with each push at the moment when it becomes whole.
  SessionModel(const IntegerJob& job, const PushLedger& ledger,
               const ContentModel& content, WhenWhole when_whole)
      : job_(job),
        ledger_(ledger),
        content_(content),
        when_whole_(std::move(when_whole)) {}

  // Of a worker: what it sends, and what it hears.
  absl::Status Joined(uint32_t worker, const v1::JoinReply& reply);
  absl::Status SendsPush(PushLedger::PushIndex push);
  absl::Status SendsHeartbeat(const v1::HeartbeatRequest& request);
  absl::Status SendsPortion(const v1::PortionRequest& request);
  absl::Status HearsPush(const v1::PushRequest& request,
                         const v1::PushReply& reply);
  // It notes that it waits for its open push no longer, which counts from now
  // on as one that is whole. That push; kDataLoss if it has opened none.
  absl::StatusOr<PushLedger::PushIndex> GivesUp(const SessionKey& session);
  absl::Status HearsHeartbeat(const v1::HeartbeatRequest& request,
                              const v1::HeartbeatReply* reply);

  // A push is open: some block of it is not acknowledged.
  bool IsOpen(const SessionKey& session, uint64_t sequence) const;
  bool HasOpenPush(uint32_t worker) const;
  bool AnyOpenPush() const;
  // By session: up to which push all are whole.
  std::map<SessionKey, uint64_t> whole() const;
  // Pushes that were open to a server that got another generation meanwhile.
  uint64_t resent_to_successors() const { return resent_to_successors_; }

 private:
  struct Session {
    Number configuration;
    std::vector<Number> servers;         // Generations, by index.
    std::vector<uint32_t> block_server;  // By block of the job.
    uint64_t opened = 0;
    uint64_t whole = 0;
    PushLedger::PushIndex push = 0;  // The one that was opened last.
    std::vector<bool> acknowledged;  // Its blocks.
    uint64_t heartbeat = 0;          // The newest sent.
    bool heartbeat_open = false;
    uint64_t term = 0;  // The newest of which a coordinator was heard.
    Number snapshot;    // The newest heard of,
    uint64_t cut = 0;   // and the push opened last by then.
    // The next push may have been open already, no chunk of it complete: its
    // worker's cut or its stamp, that of this snapshot, says so.
    bool cut_may_be_next = false;
    Number snapshot_before;
    bool stopped = false;
  };

  void Learn(const v1::Configuration& configuration, Session* session);
  absl::Status CheckCut(const SessionKey& key, const v1::WorkerCut& cut,
                        Session* session) const;
  absl::Status CheckCount(const SessionKey& key, uint64_t told,
                          const char* what) const;
  absl::Status FinishIfWhole(Session* session);

  const IntegerJob& job_;
  const PushLedger& ledger_;
  const ContentModel& content_;
  const WhenWhole when_whole_;
  std::map<SessionKey, Session> sessions_;
  std::map<uint32_t, SessionKey> newest_;  // By worker.
  uint64_t resent_to_successors_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SESSION_MODEL_H_
