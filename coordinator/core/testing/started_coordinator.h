#ifndef PARAMD_COORDINATOR_CORE_TESTING_STARTED_COORDINATOR_H_
#define PARAMD_COORDINATOR_CORE_TESTING_STARTED_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/core_driver.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "proto/testing/pair.h"

namespace paramd::testing {

// Job "j" with digest "digest": 2 servers, 2 workers, 8 examples in portions of
// 4 (2 batches of 2), 2 epochs, lease 10 s, heartbeat 1 s, plain SGD.
Coordinator::Options JobOptions();

// A coordinator with its storage, servers and workers played by the test, step
// by step. Not thread-safe.
class StartedCoordinator {
 public:
  // A worker as the coordinator sees it: what it would say next.
  struct Worker {
    uint32_t index = 0;
    v1::HeartbeatRequest beat;
    uint64_t portion_number = 0;
    CallId parked = 0;  // Its heartbeat, until the answer was taken.
  };

  explicit StartedCoordinator(const Coordinator::Options& options);

  Coordinator& core() { return core_; }
  CoreDriver& driver() { return driver_; }

  // ---- starting, in order
  void ReadLog(const v1::ReadLogResult& log = {});
  // The next append, which succeeds. REQUIRES: there is one.
  v1::LogEntry Append();
  // `found`: of the job's variables unless it names others.
  void FindCheckpoint(v1::FindCheckpointResult found = {});
  // All of it, up to servers that are filled.
  void Run();

  // ---- servers: their incarnation is 100 + index unless changed
  uint64_t incarnation(uint32_t server) const {
    return servers_[server].incarnation;
  }
  void Restart(uint32_t server) {
    servers_[server] = {servers_[server].incarnation + 1000};
  }
  // From now on the server drains, until it hears that the snapshot that was
  // sealed since is committed; then it is gone.
  void DrainServer(uint32_t server) { servers_[server].draining = true; }
  // From now on servers take changes for a configuration, or not any more.
  void TakeChanges(bool take) { take_changes_ = take; }
  // What the server will write, but for its name: what it has and has lost.
  v1::ShardFile& file(uint32_t server) { return servers_[server].file; }
  // What the server answers to the recall, but for its incarnation.
  v1::RecallReply& recalled(uint32_t server) {
    return servers_[server].recalled;
  }
  bool gone(uint32_t server) const { return servers_[server].gone; }
  // Answers every Recall and Configure that is open, as filled servers do,
  // until there is none.
  void Serve();
  // The same for a Seal of `server`; false if none is open.
  bool Seal(uint32_t server);
  bool Write(uint32_t server);

  // ---- workers
  // From now on those of an index behind the list's say that no list names
  // them.
  void JoinBesideTheList() { beside_the_list_ = true; }
  CallId BeginJoin(uint32_t index, uint64_t incarnation,
                   const std::string& host = "host", uint64_t replaces = 0,
                   uint64_t left_sessions = 0);
  // Joins and is admitted.
  Worker Join(uint32_t index);
  // Says what `worker->beat` holds; an answer already there is taken.
  void Beat(Worker* worker);
  // Takes over the answer to the parked heartbeat. False if there is none.
  bool TakeNews(Worker* worker);
  // Beats until the coordinator has nothing new to say, or the end.
  void CatchUp(Worker* worker);
  CoreDriver::Answer TakePortion(Worker* worker, uint64_t number,
                                 uint64_t finished_id);
  // Takes the next portion; unset if there is none.
  v1::PortionReply NextPortion(Worker* worker, uint64_t finished_id);
  // Cuts for the snapshot that is open, all up to the cut acknowledged.
  // REQUIRES: one is.
  void Cut(Worker* worker, uint64_t sequence);

  // The last answer of the coordinator to any heartbeat.
  const v1::HeartbeatReply& last_reply() const { return last_reply_; }
  v1::Configuration configuration();

 private:
  struct Server {
    uint64_t incarnation;
    bool draining = false;
    v1::SnapshotNumber drained_by = {};
    bool gone = false;
    v1::ShardFile file = {};
    v1::RecallReply recalled = {};
  };

  void AnswerConfigure(const Outbox::SendItem& sent);

  const std::vector<v1::Variable> variables_;
  const uint32_t workers_;
  bool beside_the_list_ = false;
  bool take_changes_ = false;
  Coordinator core_;
  CoreDriver driver_;
  std::vector<Server> servers_;
  v1::HeartbeatReply last_reply_;
};

}  // namespace paramd::testing

#endif  // PARAMD_COORDINATOR_CORE_TESTING_STARTED_COORDINATOR_H_
