#ifndef PARAMD_WORKER_STAGES_STAGE_CORE_H_
#define PARAMD_WORKER_STAGES_STAGE_CORE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "compute/pipeline/stage_mail.h"
#include "proto/paramd/v1/stage.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/core.h"
#include "worker/stages/stage_content.h"

namespace paramd {

// A task of type stage: takes the operations of its worker, has them computed
// one after the other in each lane, and answers with what came of them.
//
//   a lane:  ──Compute n+1──► computing ──Completed──► done ──Compute n+1──► …
//                                  │ the same asked again: the same answer
//                  any other one: refused, so that its mini-batch begins anew
//
// One process of one worker is its owner. Another process of that worker takes
// its place if its session is newer, or if the owner has not called for a
// while; nothing of the owner's is kept then. It keeps nothing that can be
// lost: who finds it without what it wants begins a mini-batch.
//
// Invariant: what is computed is the next operation of its lane's newest
// mini-batch; each is computed once.
//
// Not thread-safe: a core.
class StageCore : public Core {
 public:
  struct Options {
    uint32_t index = 0;
    uint32_t worker = 0;  // Whose stages these are.
    std::string build;    // Of this program.
    // How long it waits for its worker's first call, and then for the next
    // one, a greeting at least: see StageCalls::kGreetEvery. If this process
    // stood still itself (SIGSTOP), it begins to wait anew.
    absl::Duration start_timeout;
    absl::Duration worker_patience = absl::Minutes(10);
    // After so long without a call an owner may be dead.
    absl::Duration lease;
    // Of one content; 0: any.
    uint64_t most_content_bytes = 0;
    // Of a result, at once.
    uint64_t piece_bytes = kStagePieceBytes;
  };
  // An answer comes after so long at the latest, be it that there is none yet.
  static constexpr absl::Duration kPatience = absl::Seconds(1);
  static constexpr uint32_t kMostLanes = 8;

  explicit StageCore(Options options) : options_(std::move(options)) {}

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  std::string overdue(Time now) const override;

 private:
  struct Owner {
    uint64_t incarnation = 0;
    v1::SessionId generation;
    Time heard;
  };
  // What is put before its operation.
  struct Content {
    uint64_t mini_batch = 0;
    uint64_t operation = 0;
    uint64_t bytes = 0;
    uint64_t received = 0;
    std::set<uint64_t> offsets = {};  // Of the pieces.
    Buffer memory = {};
    std::byte* data = nullptr;
  };
  struct Asked {
    CallId call = 0;
    Time until;
    v1::ComputeStageReply::State state = v1::ComputeStageReply::TAKEN;
  };
  struct Lane {
    uint64_t mini_batch = 0;
    uint64_t operation = 0;  // The newest that was taken.
    IoId io = 0;             // 0: nothing is computed.
    // The stage whose weights come with the newest one.
    absl::optional<uint32_t> begins;
    // Stages that have been given weights, by this owner.
    std::set<uint32_t> has_weights;
    // Of the newest one, once it has ended.
    absl::Status status;
    v1::ComputeStageReply result;
    BufferChain payload;
    Content content;
    BorderMemory memory;
    absl::optional<Asked> asked;
  };

  absl::Status CheckWorker(const Message& message,
                           const v1::StageHeader& header) const;
  absl::Status CheckOwner(const v1::StageHeader& header, Time now, Outbox* out);
  void TakeOwner(const v1::StageHeader& header, Time now, Outbox* out);
  // INVALID beyond the bound.
  absl::StatusOr<Lane*> LaneOf(const v1::StageHeader& header);
  absl::Status Put(const v1::PutStageContentRequest& request,
                   const BufferChain& payload);
  // OK: it is answered now or later.
  absl::Status Compute(CallId call, const v1::ComputeStageRequest& request,
                       const BufferChain& payload, Time now, Outbox* out);
  absl::Status Take(const v1::ComputeStageRequest& request,
                    const BufferChain& payload, Lane* lane, Outbox* out);
  absl::StatusOr<Buffer> ContentOf(const v1::ComputeStageRequest& request,
                                   const BufferChain& payload, Lane* lane);
  absl::Status CheckSize(uint64_t bytes) const;
  absl::StatusOr<BufferChain> Fetch(const v1::FetchStageResultRequest& request);
  void Wait(CallId call, v1::ComputeStageReply::State state, Time now,
            Lane* lane, Outbox* out);
  void Answer(Lane* lane, Outbox* out);
  // When it has waited long enough for its worker to call.
  Time LosesPatience() const {
    return heard_ +
           (is_greeted_ ? options_.worker_patience : options_.start_timeout);
  }
  std::string Name() const { return PeerName(PeerId::Stage(options_.index)); }

  const Options options_;
  Time heard_;               // When its worker last called, or it started.
  bool is_greeted_ = false;  // Its worker has called.
  absl::optional<Owner> owner_;
  // Of the owner; what is computed for another one before ends unheard.
  std::map<uint32_t, Lane> lanes_;
  IoId next_io_ = 1;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_CORE_H_
