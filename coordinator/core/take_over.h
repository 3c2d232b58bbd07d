#ifndef PARAMD_COORDINATOR_CORE_TAKE_OVER_H_
#define PARAMD_COORDINATOR_CORE_TAKE_OVER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/epochs.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What a new coordinator learns from servers that its predecessor has filled,
// so that they keep what they hold and the job goes on from there.
//
// Not thread-safe: lives inside the coordinator's core.
class TakeOver {
 public:
  // What server `server` answers to the recall, instead of what it said before.
  void Recalled(uint32_t server, const v1::RecallReply& reply);

  // Whether any server has said that it holds something.
  bool AnyHoldsSlices() const;

  // The newest checkpoint; neither is set if there is none, and no path if its
  // variables are others, so that no server restores it.
  struct Newest {
    const v1::Manifest* manifest = nullptr;
    std::string path;
  };
  // Why all have to begin with the newest checkpoint; empty: they keep what
  // they hold under this layout. They do if all of them hold it and it is what
  // came of that checkpoint, without a server that was restored by itself
  // since: which pushes that one has lost only the last coordinator could
  // complete. One that a backup took over has lost none.
  std::string WhyNot(const v1::Layout& layout, const Newest& newest) const;

  // What follows REQUIRES that they keep it.
  const v1::ServerLife& generation(uint32_t server) const;
  // The life that was filled with what this one holds: this one, or an earlier
  // one that it took over.
  const v1::ServerLife& filled(uint32_t server) const;
  std::string restore_directory(uint32_t server) const;
  // What is not used by a push that is wholly in on every server.
  v1::SavedInput InputLeft(const Epochs& epochs) const;
  // The sessions that the servers know, by worker. Not among them: worker 0's,
  // whose process was the coordinator's, and those whose fence is logged:
  // `fenced` has the newest of each worker. None if servers have not heard yet
  // that the mode is `mode` now: their start clocks are of the one before.
  std::map<uint32_t, v1::WorkerMember> SessionsThatGoOn(
      v1::Consistency::Mode mode,
      const std::map<uint32_t, v1::SessionId>& fenced) const;
  // The newest push of each session that is wholly in on every server, by
  // generation; those without one are left out.
  std::vector<v1::SavedSession> Sessions() const;

 private:
  const v1::ServerMember* Member(uint32_t server) const;
  // Whether the content of all servers is that of the lives which wrote it.
  bool WroteIt(const v1::Manifest& manifest) const;
  bool BeganTogetherWith(const std::string& path) const;
  // Whether the layout gives it something.
  bool Owns(uint32_t server) const;

  std::map<uint32_t, v1::RecallReply> replies_;  // By server.
};

// Up to which push of a session the step of that checkpoint counts them: up to
// its cut. Of one that a later session of the worker has followed there without
// such a cut: however many it made.
uint64_t PushesCounted(const v1::Manifest& checkpoint, uint32_t worker,
                       const v1::SessionId& generation);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_TAKE_OVER_H_
