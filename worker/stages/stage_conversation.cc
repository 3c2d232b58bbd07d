#include "worker/stages/stage_conversation.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace paramd {

v1::StageHeader LaneState::Header() const {
  v1::StageHeader header = who;
  *header.mutable_generation() = calls->generation();
  header.set_mini_batch(mini_batch);
  return header;
}

v1::StageHeader StageConversation::Header() const {
  v1::StageHeader header = lane_.Header();
  header.set_operation(operation_);
  return header;
}

absl::Status StageConversation::Run(
    v1::StageOperation operation, const StageContent& content,
    const StageArrays& expected, absl::Span<const absl::Span<std::byte>> to) {
  if (mini_batch_ != lane_.mini_batch) {
    mini_batch_ = lane_.mini_batch;
    operation_ = 0;
  }
  ++operation_;
  *operation.mutable_arrays() = content.arrays();
  absl::Status status = RunAll(operation, content, expected, to);
  if (!status.ok()) lane_.failed = task_.index;
  return status;
}

absl::Status StageConversation::RunAll(
    const v1::StageOperation& operation, const StageContent& content,
    const StageArrays& expected, absl::Span<const absl::Span<std::byte>> to) {
  BufferChain with_the_call;
  if (content.bytes() > kStagePieceBytes) {
    RETURN_IF_ERROR(Put(content));
  } else if (content.bytes() > 0) {
    with_the_call.push_back(content.Copy(0, content.bytes()));
  }
  ASSIGN_OR_RETURN(const StageCalls::Answer answer,
                   Compute(operation, with_the_call));
  const auto& reply = static_cast<const v1::ComputeStageReply&>(*answer.head);
  RETURN_IF_ERROR(CheckResult(reply, expected, to));
  const uint64_t first = ChainSize(answer.payload);
  if (first > 0 && !PutPiece(answer.payload, 0, to)) {
    return absl::InternalError(
        absl::StrCat(PeerName(task_), " gave more than its result"));
  }
  return Fetch(first, reply.bytes(), to);
}

absl::Status StageConversation::Put(const StageContent& content) {
  const size_t pieces =
      (content.bytes() + kStagePieceBytes - 1) / kStagePieceBytes;
  return lane_.calls->CallEach(
      pieces, kStagePiecesAtOnce,
      [&](size_t i) {
        auto request = std::make_unique<v1::PutStageContentRequest>();
        *request->mutable_header() = Header();
        request->set_bytes(content.bytes());
        request->set_offset(i * kStagePieceBytes);
        StageCalls::Request call;
        call.to = task_;
        call.payload.push_back(
            content.Copy(request->offset(), kStagePieceBytes));
        call.head = std::move(request);
        call.deadline = kStageDeadline;
        return call;
      },
      [this](size_t, const StageCalls::Answer&) {
        return lane_.IsAbandoned()
                   ? absl::CancelledError("the step was abandoned")
                   : absl::OkStatus();
      });
}

absl::StatusOr<StageCalls::Answer> StageConversation::AskOnce(
    const v1::ComputeStageRequest& request, const BufferChain& content) {
  StageCalls::Answer answer;
  RETURN_IF_ERROR(lane_.calls->CallEach(
      /*count=*/1, /*at_once=*/1,
      [&](size_t) {
        return StageCalls::Request{
            task_, std::make_unique<v1::ComputeStageRequest>(request), content,
            kStageDeadline};
      },
      [&](size_t, StageCalls::Answer come) {
        answer = std::move(come);
        return absl::OkStatus();
      }));
  return answer;
}

absl::StatusOr<StageCalls::Answer> StageConversation::Compute(
    const v1::StageOperation& operation, const BufferChain& content) {
  v1::ComputeStageRequest request;
  *request.mutable_header() = Header();
  *request.mutable_operation() = operation;
  while (!lane_.IsAbandoned()) {
    ASSIGN_OR_RETURN(
        StageCalls::Answer answer,
        AskOnce(request, request.taken() ? BufferChain() : content));
    const auto& reply = static_cast<const v1::ComputeStageReply&>(*answer.head);
    if (reply.state() == v1::ComputeStageReply::DONE) return answer;
    if (reply.state() == v1::ComputeStageReply::TAKEN) {
      request.set_taken(true);
      request.clear_operation();
    }
  }
  return absl::CancelledError("the step was abandoned");
}

absl::Status StageConversation::CheckResult(
    const v1::ComputeStageReply& reply, const StageArrays& expected,
    absl::Span<const absl::Span<std::byte>> to) const {
  const auto text = [](const StageArrays& arrays) {
    std::string all;
    for (const v1::StageArray& array : arrays) {
      absl::StrAppend(&all, all.empty() ? "" : ", ", ShapeOf(array));
    }
    return all.empty() ? std::string("nothing") : all;
  };
  uint64_t bytes = 0;
  for (const absl::Span<std::byte> array : to) bytes += array.size();
  if (text(reply.arrays()) == text(expected) && reply.bytes() == bytes) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      PeerName(task_), " computed ", text(reply.arrays()), " where ",
      text(expected), " was expected: do both compute with the same device?"));
}

absl::Status StageConversation::Fetch(
    uint64_t from, uint64_t end, absl::Span<const absl::Span<std::byte>> to) {
  const size_t pieces = (end - from + kStagePieceBytes - 1) / kStagePieceBytes;
  return lane_.calls->CallEach(
      pieces, kStagePiecesAtOnce,
      [&](size_t i) {
        auto request = std::make_unique<v1::FetchStageResultRequest>();
        *request->mutable_header() = Header();
        request->set_offset(from + i * kStagePieceBytes);
        return StageCalls::Request{
            task_, std::move(request), {}, kStageDeadline};
      },
      [&](size_t i, const StageCalls::Answer& answer) {
        const uint64_t offset = from + i * kStagePieceBytes;
        const bool is_whole = ChainSize(answer.payload) ==
                              std::min(kStagePieceBytes, end - offset);
        return is_whole && PutPiece(answer.payload, offset, to)
                   ? absl::OkStatus()
                   : absl::InternalError(absl::StrCat(
                         PeerName(task_), " gave a piece of another size"));
      });
}

}  // namespace paramd
