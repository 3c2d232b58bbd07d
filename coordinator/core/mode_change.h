#ifndef PARAMD_COORDINATOR_CORE_MODE_CHANGE_H_
#define PARAMD_COORDINATOR_CORE_MODE_CHANGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "tensor/core.h"

namespace paramd {

// A change of the mode that an operator asked for, until the log has it.
//
//   waiting ──► stopping ──► logging ──► (holds)
//   snapshot    workers'     entry
//   ends        cuts
//
// Between two modes without steps it is logged at once. To or from sync all
// sessions end with it: so nothing of the old mode is of any session of the new
// one. From sync nobody is stopped: the steps stand still between two of them.
//
// Invariant: a cut counts only if its worker knew of the present stop.
//
// Not thread-safe: lives inside the coordinator's core, which drives it.
class ModeChange {
 public:
  enum class Stage { kWaiting, kStopping, kLogging };

  // `call` is answered by the caller when the change holds or is given up.
  ModeChange(CallId call, const v1::Consistency& from,
             const v1::Consistency& to, v1::Origin origin = {})
      : call_(call), from_(from), to_(to), origin_(std::move(origin)) {}

  CallId call() const { return call_; }
  const v1::Consistency& from() const { return from_; }
  const v1::Consistency& to() const { return to_; }
  const v1::Origin& origin() const { return origin_; }
  bool to_sync() const { return to_.mode() == v1::Consistency::SYNC; }
  // One of the two modes is SYNC.
  bool ends_sessions() const {
    return to_sync() || from_.mode() == v1::Consistency::SYNC;
  }
  // "from async to sync".
  std::string Name() const;

  Stage stage() const { return stage_; }
  // Workers stop who know this configuration or a later one. waiting →
  // stopping.
  void BeginStop(const v1::ConfigurationVersion& configuration);
  // → logging.
  void BeginLogging() { stage_ = Stage::kLogging; }
  // Workers must not open a push.
  bool stops_workers() const {
    return to_sync() && ends_sessions() && stage_ != Stage::kWaiting;
  }

  // What a worker says of itself; not a cut of this stop: no change.
  void Heard(const v1::HeartbeatRequest& heartbeat);
  bool HasCut(uint32_t worker) const { return cuts_.contains(worker); }
  const std::map<uint32_t, v1::WorkerCut>& cuts() const { return cuts_; }

 private:
  const CallId call_;
  const v1::Consistency from_;
  const v1::Consistency to_;
  const v1::Origin origin_;
  Stage stage_ = Stage::kWaiting;
  v1::ConfigurationVersion stopped_by_;
  std::map<uint32_t, v1::WorkerCut> cuts_;  // Bound: the workers.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_MODE_CHANGE_H_
