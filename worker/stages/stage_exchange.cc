#include "worker/stages/stage_exchange.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

absl::Status Abandoned() {
  return absl::CancelledError("the step was abandoned");
}

std::string ShapesOf(const StageArrays& arrays) {
  std::string all;
  for (const v1::StageArray& array : arrays) {
    absl::StrAppend(&all, all.empty() ? "" : ", ", ShapeOf(array));
  }
  return all.empty() ? std::string("nothing") : all;
}

}  // namespace

v1::StageHeader LaneState::Header() const {
  v1::StageHeader header = who;
  *header.mutable_generation() = calls->generation();
  header.set_mini_batch(mini_batch);
  return header;
}

StageExchange::StageExchange(const LaneState& lane, PeerId task,
                             uint64_t number, v1::StageOperation operation,
                             const StageContent& content, const Result& result)
    : lane_(lane),
      task_(task),
      number_(number),
      content_(content),
      result_(result) {
  *operation.mutable_arrays() = content.arrays();
  *request_.mutable_operation() = std::move(operation);
  const bool is_put = content.bytes() > lane.piece_bytes;
  if (!is_put && content.bytes() > 0) {
    with_the_call_.push_back(content.Copy(0, content.bytes()));
  }
  Enter(is_put ? Phase::kPut : Phase::kAsk, content.bytes());
}

// `bytes`: of what is cut into pieces, from `from_` on.
void StageExchange::Enter(Phase phase, uint64_t bytes) {
  before_ += begun_;
  begun_ = 0;
  taken_ = 0;
  phase_ = phase;
  end_ = from_ + bytes;
  wanted_ = phase == Phase::kAsk
                ? 1
                : (bytes + lane_.piece_bytes - 1) / lane_.piece_bytes;
  if (phase == Phase::kFetch && wanted_ == 0) phase_ = Phase::kDone;
}

v1::StageHeader StageExchange::Header() const {
  v1::StageHeader header = lane_.Header();
  header.set_operation(number_);
  return header;
}

absl::optional<StageCalls::Request> StageExchange::Next() {
  const bool may = phase_ != Phase::kDone && phase_ != Phase::kFailed &&
                   begun_ < wanted_ && begun_ < taken_ + kStagePiecesAtOnce;
  if (!may) return absl::nullopt;
  const size_t call = begun_++;
  return phase_ == Phase::kAsk ? Question() : Piece(call);
}

StageCalls::Request StageExchange::Question() const {
  auto request = std::make_unique<v1::ComputeStageRequest>(request_);
  *request->mutable_header() = Header();
  return {task_, std::move(request), with_the_call_, kStageDeadline};
}

StageCalls::Request StageExchange::Piece(uint64_t piece) const {
  const uint64_t offset = from_ + piece * lane_.piece_bytes;
  StageCalls::Request call;
  call.to = task_;
  call.deadline = kStageDeadline;
  if (phase_ == Phase::kFetch) {
    auto request = std::make_unique<v1::FetchStageResultRequest>();
    *request->mutable_header() = Header();
    request->set_offset(offset);
    call.head = std::move(request);
    return call;
  }
  auto request = std::make_unique<v1::PutStageContentRequest>();
  *request->mutable_header() = Header();
  request->set_bytes(content_.bytes());
  request->set_offset(offset);
  call.payload.push_back(content_.Copy(offset, lane_.piece_bytes));
  call.head = std::move(request);
  return call;
}

absl::Status StageExchange::Take(size_t call,
                                 const StageCalls::Answer& answer) {
  if (phase_ == Phase::kDone || phase_ == Phase::kFailed) {
    return absl::OkStatus();
  }
  absl::Status status = TakeAnswer(call, answer);
  if (!status.ok()) phase_ = Phase::kFailed;
  return status;
}

absl::Status StageExchange::TakeAnswer(size_t call,
                                       const StageCalls::Answer& answer) {
  RETURN_IF_ERROR(answer.status);
  ++taken_;
  if (phase_ == Phase::kAsk) return TakeState(answer);
  if (phase_ == Phase::kFetch) {
    RETURN_IF_ERROR(TakePiece(call - before_, answer.payload));
    if (taken_ == wanted_) phase_ = Phase::kDone;
    return absl::OkStatus();
  }
  if (lane_.IsAbandoned()) return Abandoned();
  if (taken_ == wanted_) Enter(Phase::kAsk, 0);
  return absl::OkStatus();
}

absl::Status StageExchange::TakeState(const StageCalls::Answer& answer) {
  const auto& reply = static_cast<const v1::ComputeStageReply&>(*answer.head);
  if (reply.state() != v1::ComputeStageReply::DONE) {
    if (lane_.IsAbandoned()) return Abandoned();
    if (reply.state() == v1::ComputeStageReply::TAKEN) {
      request_.set_taken(true);
      request_.clear_operation();
      with_the_call_.clear();
    }
    Enter(Phase::kAsk, 0);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckResult(reply));
  const uint64_t first = ChainSize(answer.payload);
  if (first > 0 && !PutPiece(answer.payload, 0, result_.to)) {
    return absl::InternalError(
        absl::StrCat(PeerName(task_), " gave more than its result"));
  }
  from_ = first;
  Enter(Phase::kFetch, reply.bytes() - first);
  return absl::OkStatus();
}

absl::Status StageExchange::TakePiece(uint64_t piece,
                                      const BufferChain& payload) {
  const uint64_t offset = from_ + piece * lane_.piece_bytes;
  const bool is_whole =
      ChainSize(payload) == std::min(lane_.piece_bytes, end_ - offset);
  return is_whole && PutPiece(payload, offset, result_.to)
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat(
                   PeerName(task_), " gave a piece of another size"));
}

absl::Status StageExchange::CheckResult(
    const v1::ComputeStageReply& reply) const {
  uint64_t bytes = 0;
  for (const absl::Span<std::byte> array : result_.to) bytes += array.size();
  const std::string expected = ShapesOf(*result_.expected);
  const std::string found = ShapesOf(reply.arrays());
  if (found == expected && reply.bytes() == bytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(PeerName(task_), " computed ", found, " where ", expected,
                   " was expected: do both compute with the same device?"));
}

}  // namespace paramd
