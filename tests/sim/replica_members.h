#ifndef PARAMD_TESTS_SIM_REPLICA_MEMBERS_H_
#define PARAMD_TESTS_SIM_REPLICA_MEMBERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Which servers and backups of the workload `replicas` are there, as far as
// messages and logs tell: whether anybody may be hurt now so that nothing is to
// be lost. A task is a process with two places, the chief one more.
class ReplicaMembers {
 public:
  // The newest configuration that anybody was told.
  const v1::Configuration& newest() const { return newest_; }

  // ---- what is seen
  // What a configuration changes of the one before it.
  struct Change {
    std::vector<v1::ServerMember> taken_over;  // Servers in another place.
    bool in_sync_mode = false;                 // They were, until then.
    uint64_t members = 0;    // Backups that came to have everything.
    bool went_back = false;  // Another chief had all servers begin anew.
  };
  // Somebody is told this configuration, which may be the newest.
  Change Told(const v1::Configuration& configuration);
  // `server`, in this place, or its backup answers what it was told. kDataLoss
  // if the two had different bits.
  absl::Status Answered(uint32_t server, uint32_t place,
                        const v1::ConfigureReply& reply);
  // The coordinator has heard from a place that was out of the way: before that
  // it may still take it for silent.
  void Heard(uint32_t place) { unheard_.erase(place); }
  // The coordinator logs this.
  void Noted(absl::string_view note);
  // The log is to say that the server has no backup: the one it has may not
  // take over any more.
  void Drops(uint32_t server);
  // The log is to say that the server is there. If the coordinator dies before
  // somebody is told, what no place has reported to hold is lost.
  void Logs(const v1::ServerMember& server);

  // ---- who is down
  void Down(uint32_t task) { down_.insert(task); }
  void Up(uint32_t task) { down_.erase(task); }
  bool IsNobodyDown() const { return down_.empty() && !chief_is_down_; }
  // Until somebody is told a configuration of another coordinator.
  void ChiefIsDown() { chief_is_down_ = true; }
  // It was not, after all.
  void ChiefIsBack() { chief_is_down_ = false; }
  bool IsChiefThere() const { return !chief_is_down_; }
  // The place was stopped, or cut off.
  void OutOfTheWay(uint32_t place) { unheard_.insert(place); }
  // A process of the task begins, and ends for good.
  void Begin(uint32_t task, uint64_t incarnation, absl::Duration now);
  void End(uint32_t task) { ended_.insert(processes_[task]); }
  // Both of its places are there, which begin within a second.
  bool HasBegun(uint32_t task, absl::Duration now) const {
    return now > begun_.at(task) + absl::Seconds(1);
  }

  // ---- what may be done
  bool IsRunning() const { return newest_.state() == v1::RUNNING; }
  // Nobody is down, and each server has a backup that would take it over.
  bool IsProtected() const;
  // Each server has answered, where the log says that it is, that it is filled,
  // and its process has not ended.
  bool AreFilled() const;
  // Nobody is down, and each server is where the log says, has answered there
  // that it is filled, and stays there for now.
  bool IsKnownToHold() const;
  // The server and its backup are there, and have the same bits when nobody
  // pushes any more.
  bool MayCompare(const v1::ServerMember& server) const;

 private:
  // Its backup is being dropped, or was.
  bool IsDropped(const v1::ServerMember& server) const;

  v1::Configuration newest_;
  std::map<uint32_t, v1::ConfigurationVersion> dropped_;  // By server: since.
  std::set<uint32_t> down_;                               // Tasks.
  bool chief_is_down_ = false;
  // Places that were out of the way, and that the coordinator has not heard
  // since.
  std::set<uint32_t> unheard_;
  std::map<uint32_t, uint64_t> processes_;     // Of tasks.
  std::set<uint64_t> ended_;                   // Processes.
  std::map<uint32_t, absl::Duration> begun_;   // By task, when.
  std::map<uint32_t, v1::ServerLife> filled_;  // By server; told so.
  std::set<uint32_t> moving_;  // Servers, by an entry that nobody was told of.
  // By itself, and no checkpoint has been written since.
  bool restored_alone_ = false;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_REPLICA_MEMBERS_H_
