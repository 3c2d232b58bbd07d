#ifndef PARAMD_WORKER_STAGES_STAGE_EXCHANGE_H_
#define PARAMD_WORKER_STAGES_STAGE_EXCHANGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/stage.pb.h"
#include "tensor/buffer.h"
#include "tensor/message.h"
#include "worker/stages/stage_calls.h"
#include "worker/stages/stage_content.h"

namespace paramd {

// A piece on its way, on a slow line; and an operation that is begun, of which
// the stage says after a while at the latest that it goes on.
inline constexpr absl::Duration kStageDeadline = absl::Seconds(30);

// What the conversations of one copy of the model share. The mini-batch changes
// while they are silent.
struct LaneState {
  // Of the worker and the lane.
  v1::StageHeader who;
  StageCalls* calls = nullptr;  // Outlives it.
  uint64_t mini_batch = 0;
  uint64_t piece_bytes = kStagePieceBytes;
  const std::atomic<bool>* abandoned = nullptr;  // May be null.
  // Of the tasks whose operations failed in it, the first.
  std::atomic<bool> has_failed{false};
  std::atomic<uint32_t> failed{0};

  // The next mini-batch, or the same once more.
  void Begin() {
    ++mini_batch;
    has_failed = false;
  }
  bool IsAbandoned() const {
    return abandoned != nullptr && abandoned->load(std::memory_order_relaxed);
  }
  v1::StageHeader Header() const;
};

// The calls that have a stage do one operation, and what follows from their
// answers. It waits for nobody: who makes the calls does.
//
//   content in pieces ──► is it done? ──► ... ──► result in pieces ──► over
//   (a small one goes        │  ▲ asked again
//    with the question)      └──┘
//
// Not thread-safe.
class StageExchange {
 public:
  // Where the result goes: a place for each of the expected arrays.
  struct Result {
    const StageArrays* expected = nullptr;
    absl::Span<const absl::Span<std::byte>> to;
  };

  // `number`: of the operation in its mini-batch, from 1. Lane, content, the
  // expected arrays and where they go outlive it.
  StageExchange(const LaneState& lane, PeerId task, uint64_t number,
                v1::StageOperation operation, const StageContent& content,
                const Result& result);

  // The next call that may go out now; none: an answer is awaited first, or it
  // is over.
  absl::optional<StageCalls::Request> Next();
  // What came of the call `call`, counted from 0 in the order of Next. Its
  // error; INTERNAL if the result is another one than was expected; CANCELLED
  // if the step was abandoned before the result was there. Then it is over.
  absl::Status Take(size_t call, const StageCalls::Answer& answer);
  // All of the result is where it goes.
  bool is_done() const { return phase_ == Phase::kDone; }

 private:
  enum class Phase { kPut, kAsk, kFetch, kDone, kFailed };

  void Enter(Phase phase, uint64_t bytes);
  v1::StageHeader Header() const;
  StageCalls::Request Piece(uint64_t piece) const;
  StageCalls::Request Question() const;
  absl::Status TakeAnswer(size_t call, const StageCalls::Answer& answer);
  absl::Status TakeState(const StageCalls::Answer& answer);
  absl::Status TakePiece(uint64_t piece, const BufferChain& payload);
  absl::Status CheckResult(const v1::ComputeStageReply& reply) const;

  const LaneState& lane_;
  const PeerId task_;
  const uint64_t number_;
  const StageContent& content_;
  const Result result_;
  v1::ComputeStageRequest request_;
  BufferChain with_the_call_;
  Phase phase_ = Phase::kAsk;
  // Of the phase: where its pieces begin, how many calls it has, how many of
  // them have begun and were answered, and how many were made before it.
  uint64_t from_ = 0;
  uint64_t end_ = 0;
  size_t wanted_ = 0;
  size_t begun_ = 0;
  size_t taken_ = 0;
  size_t before_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_EXCHANGE_H_
