#ifndef PARAMD_BENCH_SCALE_SIMULATED_JOB_H_
#define PARAMD_BENCH_SCALE_SIMULATED_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/time.h"
#include "coordinator/core/coordinator.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"

namespace paramd {

// What went through a coordinator.
struct CoordinatorWork {
  double cpu_s = 0;       // Of its core alone, without a transport.
  uint64_t messages = 0;  // Both ways.
  uint64_t bytes = 0;     // The same, as they are on the wire.
};
CoordinatorWork operator-(const CoordinatorWork& a, const CoordinatorWork& b);

// From the loss of a ps until the coordinator has heard from every server and
// worker that it knows who takes over.
struct TakeOverSeen {
  absl::Duration took;   // Simulated.
  CoordinatorWork work;  // In that time, whatever for.
};

// A real coordinator on a simulated clock, and the members of its job, in mode
// async: ps with a server each and its backup in another ps, and ten workers
// for each ps. Members send what real ones send, with the smallest content:
// heartbeats are parked, places are watched, a worker takes a portion of the
// input every 5 to 15 seconds, a ps that comes back becomes a backup again. A
// message takes kLatency, an entry of the log kLogWrite.
//
// Not thread-safe.
class SimulatedJob {
 public:
  static constexpr absl::Duration kLatency = absl::Microseconds(500);
  static constexpr absl::Duration kLogWrite = absl::Milliseconds(2);

  explicit SimulatedJob(uint32_t servers);

  // Until every worker has joined and every server has a backup with
  // everything. Ends the process with a sentence if that takes more than a
  // simulated minute.
  void Begin();
  void Run(absl::Duration duration);
  // The process of a ps ends; another one starts in its place `back_after`
  // later.
  void Lose(uint32_t task, absl::Duration back_after);

  uint32_t members() const {
    return static_cast<uint32_t>(tasks_.size() + workers_.size());
  }
  const CoordinatorWork& work() const { return work_; }
  const std::vector<TakeOverSeen>& take_overs() const { return seen_; }
  // Destroys the coordinator; what it held, in bytes. Nothing may follow.
  uint64_t End();

 private:
  struct Event {
    Time at;
    uint64_t order;
    std::function<void()> happen;
  };
  struct IsLater {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  // A process of a ps, with two places.
  struct Task {
    uint64_t incarnation = 0;  // 0: there is none.
  };
  struct Place {
    uint32_t server = 0;      // Which may be here.
    v1::ServerMember member;  // What the configuration says of that.
    CallId watch = 0;         // Parked.
    v1::ConfigurationVersion known;
  };
  struct Worker {
    v1::HeartbeatRequest beat;
    uint64_t portion = 0;  // Requests.
    uint64_t held = 0;     // Id of its portion.
    uint64_t acknowledged = 0;
  };

  // ---- events
  void After(absl::Duration delay, std::function<void()> happen);
  void Step();
  bool IsComplete() const;

  // ---- the coordinator
  void Enter(const std::function<void(Outbox*)>& call);
  void Deliver(PeerId from, CallId call, bool is_reply,
               const google::protobuf::Message& head);
  void Fail(uint32_t peer, CallId call);
  void Collect(Outbox* out);
  void Carry(const Outbox::SendItem& item);
  void Carry(const Outbox::ReplyItem& item);
  void Do(const Outbox::IoItem& item);
  void Completed(IoId io, Outbox::Head head);

  // ---- a ps
  uint64_t& IncarnationAt(uint32_t peer) {
    return tasks_[peer / 2].incarnation;
  }
  bool IsPrimary(uint32_t peer) const;
  void Answer(uint32_t peer, CallId call, google::protobuf::Message* reply);
  void OnConfigure(uint32_t peer, CallId call,
                   const v1::ConfigurationVersion& version);
  void OnWatch(uint32_t peer, CallId call, absl::Duration wait);

  // ---- a worker
  void Join(uint32_t index);
  void Beat(uint32_t index);
  void TakePortion(uint32_t index);
  void OnJoined(uint32_t index, const v1::JoinReply& reply);
  void OnNews(uint32_t index, const v1::HeartbeatReply& reply);

  // ---- a take-over
  void Acknowledge(uint64_t version, uint64_t* acknowledged);
  void BeginToCount(uint64_t version);

  std::unique_ptr<Coordinator> core_;
  Time now_ = Time::FromNanoseconds(1'000'000'000);
  std::priority_queue<Event, std::vector<Event>, IsLater> events_;
  uint64_t order_ = 0;
  CallId next_call_ = 1;
  uint64_t next_incarnation_ = 1000;
  std::vector<Task> tasks_;
  std::vector<Place> places_;
  std::vector<uint64_t> acknowledged_;  // By server, where it is.
  std::vector<Worker> workers_;
  size_t joined_ = 0;
  CoordinatorWork work_;

  // Of the take-over that is under way.
  bool awaited_ = false;
  uint32_t lost_ = 0;     // The server.
  uint64_t version_ = 0;  // Who goes on is in it; 0: not told yet.
  size_t unaware_ = 0;
  Time lost_at_;
  CoordinatorWork before_;
  std::vector<TakeOverSeen> seen_;
};

}  // namespace paramd

#endif  // PARAMD_BENCH_SCALE_SIMULATED_JOB_H_
