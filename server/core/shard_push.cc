// A shard's dealings with pushes.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "server/core/shard.h"

namespace paramd {

void Shard::ReceivePush(const Message& message, const v1::PushRequest& request,
                        Time now, Outbox* out) {
  auto reply = MakeHead<v1::PushReply>();
  const absl::Status status = Push(message, request, reply.get());
  if (status.ok()) {
    gate_.Hear(request.header(), request.clock(), now);
    HearLoss(request, out);
    progress_.Applied(
        request, std::count_if(reply->blocks().begin(), reply->blocks().end(),
                               [](const v1::PushedBlock& block) {
                                 return block.result() ==
                                        v1::PushedBlock::APPLIED;
                               }));
    BufferChain payload;
    if (request.has_pull()) {
      PullBehind(message.from, request, now, reply.get(), &payload);
    }
    out->Reply(message.call, std::move(reply), std::move(payload));
  } else {
    RefuseCall(message.call, status, out);
  }
  if (content_ == nullptr) return;
  for (std::string& note : content_->TakeNotes()) out->Note(std::move(note));
}

absl::Status Shard::Push(const Message& message, const v1::PushRequest& request,
                         v1::PushReply* reply) {
  RETURN_IF_ERROR(CheckPusher(message, request.header()));
  RETURN_IF_ERROR(CheckSnapshot(request.header().snapshot()));
  RETURN_IF_ERROR(push_numbers_.Hear(request.header()));
  RETURN_IF_ERROR(CheckContributors());
  RETURN_IF_ERROR(IsSync()
                      ? sync_->Push(request, message.payload, reply)
                      : content_->Push(request, message.payload, reply));
  *reply->mutable_server_generation() = generation_;
  *reply->mutable_configuration() = configuration_.version();
  reply->set_incarnation(options_.incarnation);
  return absl::OkStatus();
}

// In sync mode a push is not in before its step is decided.
void Shard::PullBehind(PeerId from, const v1::PushRequest& request, Time now,
                       v1::PushReply* reply, BufferChain* payload) {
  if (IsSync()) return;
  v1::PullRequest pull = request.pull();
  *pull.mutable_header() = request.header();
  for (const v1::PushBlock& pushed : request.blocks()) {
    v1::PullBlock* const block = pull.add_blocks();
    block->set_slice(pushed.slice());
    block->set_block(pushed.block());
  }
  if (!CheckReader(from, pull).ok() || gate_.MustWait(pull, now)) return;
  if (!Pull(pull, reply->mutable_pulled(), payload).ok()) {
    reply->clear_pulled();
    payload->clear();
  }
}

absl::Status Shard::CheckPusher(const Message& message,
                                const v1::Header& header) const {
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckSession(message, header));
  RETURN_IF_ERROR(CheckConfigured());
  RETURN_IF_ERROR(CheckTakenOver(header));
  RETURN_IF_ERROR(CheckKnown(header));
  RETURN_IF_ERROR(CheckMeant(header));
  RETURN_IF_ERROR(CheckFilled());
  return CheckStaying();
}

absl::Status Shard::CheckConfigured() const {
  if (configuration_.version().term() >= term_) return absl::OkStatus();
  return RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                      options_.retry_after,
                      absl::StrCat("the coordinator of term ", term_,
                                   " takes over and has not configured ",
                                   Name(), " yet"));
}

// A session that goes on under a new coordinator has told it first what it holds
// of the input: what it pushes before that might be handed out to somebody else.
absl::Status Shard::CheckTakenOver(const v1::Header& header) const {
  const uint64_t term = configuration_.version().term();
  if (header.generation().term() == term || header.term() == term) {
    return absl::OkStatus();
  }
  return RefuseForNow(
      v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
      absl::StrCat("the coordinator of term ", term,
                   " has not heard yet what worker-", header.worker(),
                   " holds of the input"));
}

// Its sender may have left that push behind since, and what it holds
// acknowledged now it says when it knows this life.
absl::Status Shard::CheckMeant(const v1::Header& header) const {
  const v1::Version& meant = header.server_generation();
  if (IsZero(meant) || !(meant < generation_)) return absl::OkStatus();
  return RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                      options_.retry_after,
                      absl::StrCat("a push is meant for generation ",
                                   VersionName(meant), " of ", Name(),
                                   ", which is generation ",
                                   VersionName(generation_), " now"));
}

void Shard::HearLoss(const v1::PushRequest& request, Outbox* out) {
  const v1::Header& header = request.header();
  const auto lost = lost_.Hear(header.worker(), header.generation(),
                               request.acknowledged());
  if (!lost.has_value()) return;
  out->Warn(absl::StrCat(
      "lost: pushes ", lost->from(), " to ", lost->to(), " of worker-",
      lost->worker(), " generation ", VersionName(lost->generation()),
      ", which an earlier life of ", Name(), " had acknowledged"),
            {{"from", lost->from()},
             {"to", lost->to()},
             {"worker", lost->worker()}});
}

absl::Status Shard::CheckStaying() const {
  if (IsZero(drained_by_)) return absl::OkStatus();
  return RefuseForNow(
      v1::Refusal::NOT_READY, Name(), options_.retry_after,
      absl::StrCat(Name(), " was told to stop; its successor goes on from "
                           "snapshot ", VersionName(drained_by_)));
}

absl::Status Shard::CheckSnapshot(const v1::Version& number) const {
  v1::Version newest = content_->fork().number();
  const uint64_t term = configuration_.version().term();
  if (newest.term() < term) {
    newest.Clear();
    newest.set_term(term);
  }
  newest.set_counter(newest.counter() + kMostSnapshotsAhead);
  if (!(number > newest)) return absl::OkStatus();
  return RefuseForNow(
      v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
      absl::StrCat(Name(), " has not heard of snapshot ", VersionName(number),
                   " yet; the newest it knows is ",
                   VersionName(content_->fork().number())));
}

}  // namespace paramd
