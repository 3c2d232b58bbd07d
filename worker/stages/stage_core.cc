#include "worker/stages/stage_core.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/job_end.h"
#include "proto/refusal.h"
#include "worker/stages/stage_content.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kAskAgainAfter = absl::Milliseconds(100);
// Some greetings of a worker: see StageCalls::kGreetEvery.
constexpr absl::Duration kMissed = absl::Seconds(30);
// A tick that is so late: this process stood still meanwhile.
constexpr absl::Duration kStoodStill = absl::Seconds(5);

// Of what this process does not have: it is new, or the worker has another one
// than it thinks.
absl::Status BeginAnew(const std::string& name, absl::string_view what) {
  return RefuseForNow(v1::Refusal::NOT_READY, name, kAskAgainAfter,
                      absl::StrCat(name, " does not have ", what,
                                   ": the mini-batch begins anew"));
}

// What fails here ends the worker, on another machine.
absl::Status WithName(const std::string& name, const absl::Status& status) {
  const bool has_it =
      absl::StartsWith(status.message(), name) ||
      RefusalOf(status).reason() != v1::Refusal::REASON_UNSPECIFIED;
  return has_it ? status
                : absl::Status(status.code(),
                               absl::StrCat(name, ": ", status.message()));
}

const v1::StageHeader* HeaderIn(const google::protobuf::Message& request) {
  if (const auto* greet =
          DynamicCastToGenerated<v1::GreetStageRequest>(&request)) {
    return &greet->header();
  }
  if (const auto* put =
          DynamicCastToGenerated<v1::PutStageContentRequest>(&request)) {
    return &put->header();
  }
  if (const auto* compute =
          DynamicCastToGenerated<v1::ComputeStageRequest>(&request)) {
    return &compute->header();
  }
  if (const auto* fetch =
          DynamicCastToGenerated<v1::FetchStageResultRequest>(&request)) {
    return &fetch->header();
  }
  if (const auto* release =
          DynamicCastToGenerated<v1::ReleaseStageRequest>(&request)) {
    return &release->header();
  }
  return nullptr;
}

// At most `bytes` of what follows `offset`.
BufferChain PieceOf(const BufferChain& chain, uint64_t offset, uint64_t bytes) {
  ChainReader reader(chain);
  reader.Take(offset);
  return reader.Take(std::min<uint64_t>(bytes, reader.remaining()));
}

}  // namespace

void StageCore::Start(Time now, Outbox*) { heard_ = now; }

void StageCore::Receive(Message message, Time now, Outbox* out) {
  if (message.is_reply) return;  // It calls nobody.
  const v1::StageHeader* const header = HeaderIn(*message.head);
  if (header == nullptr) {
    return out->Refuse(message.call,
                       Refuse(v1::Refusal::INVALID, "method",
                              "a stage does not serve this method"));
  }
  absl::Status status = CheckWorker(message, *header);
  const bool greets =
      DynamicCastToGenerated<v1::GreetStageRequest>(message.head) != nullptr;
  if (status.ok() && !greets) status = CheckOwner(*header, now, out);
  if (!status.ok()) return out->Refuse(message.call, std::move(status));
  is_greeted_ = true;
  heard_ = now;
  if (greets) {
    return out->Reply(message.call, std::make_unique<v1::GreetStageReply>());
  }
  if (const auto* put =
          DynamicCastToGenerated<v1::PutStageContentRequest>(message.head)) {
    status = Put(*put, message.payload);
    if (status.ok()) {
      out->Reply(message.call, std::make_unique<v1::PutStageContentReply>());
    }
  } else if (const auto* compute =
                 DynamicCastToGenerated<v1::ComputeStageRequest>(
                     message.head)) {
    status = Compute(message.call, *compute, message.payload, now, out);
  } else if (const auto* fetch =
                 DynamicCastToGenerated<v1::FetchStageResultRequest>(
                     message.head)) {
    auto piece = Fetch(*fetch);
    status = piece.status();
    if (status.ok()) {
      out->Reply(message.call, std::make_unique<v1::FetchStageResultReply>(),
                 *std::move(piece));
    }
  } else if (const auto* release =
                 DynamicCastToGenerated<v1::ReleaseStageRequest>(
                     message.head)) {
    out->Reply(message.call, std::make_unique<v1::ReleaseStageReply>());
    out->Note("its worker says that the job has ended");
    out->Exit(EndFor(release->finished()));
  }
  if (!status.ok()) out->Refuse(message.call, std::move(status));
}

// ---- whose it is ------------------------------------------------------------

absl::Status StageCore::CheckWorker(const Message& message,
                                    const v1::StageHeader& header) const {
  if (message.from.kind != PeerId::Kind::kWorker ||
      message.from.index != header.worker()) {
    return Refuse(v1::Refusal::INVALID, "worker",
                  absl::StrCat("a call of worker-", header.worker(), " by ",
                               PeerName(message.from)));
  }
  if (header.worker() != options_.worker) {
    return Refuse(v1::Refusal::OTHER_JOB, "worker",
                  absl::StrCat(Name(), " computes for worker-", options_.worker,
                               "; the caller is worker-", header.worker(),
                               ": give every process the same cluster"));
  }
  return absl::OkStatus();
}

absl::Status StageCore::CheckOwner(const v1::StageHeader& header, Time now,
                                   Outbox* out) {
  if (owner_.has_value() && owner_->incarnation == header.incarnation()) {
    if (header.generation() > owner_->generation) {
      owner_->generation = header.generation();
    }
    owner_->heard = now;
    return absl::OkStatus();
  }
  const bool is_newer = !owner_.has_value() ||
                        header.generation() > owner_->generation ||
                        now - owner_->heard > options_.lease;
  if (!is_newer) {
    return Refuse(
        v1::Refusal::FENCED, "worker",
        absl::StrCat(Name(), " computes for another process of worker-",
                     header.worker(), ", of session ",
                     VersionName(owner_->generation),
                     ", which called a moment ago; the caller is of session ",
                     VersionName(header.generation())));
  }
  TakeOwner(header, now, out);
  return absl::OkStatus();
}

void StageCore::TakeOwner(const v1::StageHeader& header, Time now,
                          Outbox* out) {
  for (auto& [number, lane] : lanes_) {
    if (!lane.asked.has_value()) continue;
    out->Refuse(lane.asked->call,
                Refuse(v1::Refusal::FENCED, "worker",
                       absl::StrCat(Name(), ": a newer process of worker-",
                                    header.worker(), " has called")));
  }
  lanes_.clear();
  owner_ = Owner{header.incarnation(), header.generation(), now};
  out->Note(absl::StrCat("computes for worker-", header.worker()),
            {{"process", absl::Hex(header.incarnation(), absl::kZeroPad16)}});
}

absl::StatusOr<StageCore::Lane*> StageCore::LaneOf(
    const v1::StageHeader& header) {
  if (header.lane() < kMostLanes) return &lanes_[header.lane()];
  return Refuse(v1::Refusal::INVALID, "lane",
                absl::StrCat("lane ", header.lane(), "; there are ", kMostLanes,
                             ", numbered from 0"));
}

// ---- what is computed -------------------------------------------------------

absl::Status StageCore::CheckSize(uint64_t bytes) const {
  if (options_.most_content_bytes == 0 ||
      bytes <= options_.most_content_bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Name(), " is given ", bytes, " bytes at once, and its machine has ",
      options_.most_content_bytes,
      ": give the model more stages, or smaller micro-batches"));
}

absl::Status StageCore::Put(const v1::PutStageContentRequest& request,
                            const BufferChain& payload) {
  const v1::StageHeader& header = request.header();
  ASSIGN_OR_RETURN(Lane* const lane, LaneOf(header));
  Content& content = lane->content;
  const std::pair<uint64_t, uint64_t> wanted(header.mini_batch(),
                                             header.operation());
  const std::pair<uint64_t, uint64_t> newest(content.mini_batch,
                                             content.operation);
  if (wanted < newest) {
    return Refuse(v1::Refusal::SUPERSEDED, "content",
                  absl::StrCat(Name(), ": a later content is being put"));
  }
  if (wanted > newest) {
    RETURN_IF_ERROR(CheckSize(request.bytes()));
    content = {.mini_batch = header.mini_batch(),
               .operation = header.operation(),
               .bytes = request.bytes()};
    content.memory = lane->memory.Take(request.bytes(), &content.data);
  }
  const uint64_t bytes = ChainSize(payload);
  // It may come twice.
  if (content.offsets.count(request.offset()) > 0) return absl::OkStatus();
  if (bytes == 0 || request.bytes() != content.bytes ||
      request.offset() > content.bytes ||
      bytes > content.bytes - request.offset() ||
      bytes > content.bytes - content.received) {
    return Invalid("content", absl::StrCat("a piece of ", bytes, " bytes at ",
                                           request.offset(),
                                           " of a content of ", content.bytes));
  }
  ChainReader reader(payload);
  reader.Read({content.data + request.offset(), bytes});
  content.received += bytes;
  content.offsets.insert(request.offset());
  return absl::OkStatus();
}

absl::StatusOr<Buffer> StageCore::ContentOf(
    const v1::ComputeStageRequest& request, const BufferChain& payload,
    Lane* lane) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> arrays,
                   ArrayBytes(request.operation().arrays()));
  const uint64_t bytes = ContentBytes(arrays);
  const uint64_t came = ChainSize(payload);
  Content& content = lane->content;
  if (came > 0 || bytes == 0) {
    if (came != bytes) {
      return Invalid("content",
                     absl::StrCat("a content of ", came,
                                  " bytes; its arrays have ", bytes));
    }
    if (bytes == 0) return Buffer();
    std::byte* data = nullptr;
    Buffer copied = lane->memory.Take(bytes, &data);
    ChainReader reader(payload);
    reader.Read({data, bytes});
    return copied;
  }
  if (content.mini_batch != request.header().mini_batch() ||
      content.operation != request.header().operation() ||
      content.received < content.bytes) {
    return BeginAnew(Name(), "all of the operation's content");
  }
  if (content.bytes != bytes) {
    return Invalid("content", absl::StrCat("a content of ", content.bytes,
                                           " bytes; its arrays have ", bytes));
  }
  return std::move(content.memory);
}

absl::Status StageCore::Compute(CallId call,
                                const v1::ComputeStageRequest& request,
                                const BufferChain& payload, Time now,
                                Outbox* out) {
  const v1::StageHeader& header = request.header();
  ASSIGN_OR_RETURN(Lane* const lane, LaneOf(header));
  if (header.mini_batch() < lane->mini_batch) {
    return Refuse(v1::Refusal::SUPERSEDED, "mini_batch",
                  absl::StrCat(Name(), ": a later mini-batch is computed"));
  }
  const bool is_same = header.mini_batch() == lane->mini_batch &&
                       header.operation() == lane->operation;
  if (is_same) {
    Wait(call, v1::ComputeStageReply::TAKEN, now, lane, out);
    if (lane->io == 0) Answer(lane, out);
    return absl::OkStatus();
  }
  const bool begins = header.mini_batch() > lane->mini_batch;
  const bool is_next =
      begins ? header.operation() == 1 && request.operation().has_begin()
             : header.operation() == lane->operation + 1 && lane->io == 0;
  if (request.taken() || !is_next) {
    return BeginAnew(Name(), "the operations before this one");
  }
  const uint32_t stage = request.operation().stage();
  if (request.operation().begin().same_weights() &&
      lane->has_weights.count(stage) == 0) {
    // Those that are there are of another owner.
    return BeginAnew(Name(), absl::StrCat("the weights of stage ", stage));
  }
  if (begins && request.operation().begin().build() != options_.build) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(), " is another build of paramd than worker-", header.worker(),
        ", which would compute other bits: start all processes of the job from "
        "the same one"));
  }
  if (lane->io != 0) {
    // Of the mini-batch before, which nobody waits for.
    Wait(call, v1::ComputeStageReply::BUSY, now, lane, out);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Take(request, payload, lane, out));
  Wait(call, v1::ComputeStageReply::TAKEN, now, lane, out);
  return absl::OkStatus();
}

absl::Status StageCore::Take(const v1::ComputeStageRequest& request,
                             const BufferChain& payload, Lane* lane,
                             Outbox* out) {
  ASSIGN_OR_RETURN(Buffer content, ContentOf(request, payload, lane));
  lane->mini_batch = request.header().mini_batch();
  lane->operation = request.header().operation();
  lane->status = absl::OkStatus();
  lane->result.Clear();
  lane->payload.clear();
  lane->io = next_io_++;
  const v1::StageOperation& operation = request.operation();
  lane->begins.reset();
  if (operation.has_begin() && !operation.begin().same_weights()) {
    lane->begins = operation.stage();
    lane->has_weights.erase(operation.stage());
  }
  BufferChain chain;
  chain.push_back(std::move(content));
  out->StartIo(lane->io, std::make_unique<v1::ComputeStageRequest>(request),
               std::move(chain));
  return absl::OkStatus();
}

absl::StatusOr<BufferChain> StageCore::Fetch(
    const v1::FetchStageResultRequest& request) {
  const v1::StageHeader& header = request.header();
  ASSIGN_OR_RETURN(Lane* const lane, LaneOf(header));
  if (header.mini_batch() != lane->mini_batch ||
      header.operation() != lane->operation || lane->io != 0) {
    return BeginAnew(Name(), "this result");
  }
  if (request.offset() > lane->result.bytes()) {
    return Invalid("offset",
                   absl::StrCat("offset ", request.offset(), " of a result of ",
                                lane->result.bytes(), " bytes"));
  }
  return PieceOf(lane->payload, request.offset(), options_.piece_bytes);
}

void StageCore::Completed(IoResult result, Time /*now*/, Outbox* out) {
  // Of the device: another process may find it well, this one never will.
  const bool is_lost =
      absl::IsUnavailable(result.status) &&
      RefusalOf(result.status).reason() == v1::Refusal::REASON_UNSPECIFIED;
  if (is_lost) out->Exit(WithName(Name(), result.status));
  const auto it =
      std::find_if(lanes_.begin(), lanes_.end(),
                   [&](const auto& one) { return one.second.io == result.io; });
  if (it == lanes_.end()) return;  // Of an owner before.
  Lane& lane = it->second;
  lane.io = 0;
  lane.status = std::move(result.status);
  lane.payload = std::move(result.payload);
  if (lane.status.ok()) {
    lane.result = static_cast<const v1::ComputeStageReply&>(*result.head);
    lane.result.set_bytes(ChainSize(lane.payload));
    if (lane.begins.has_value()) lane.has_weights.insert(*lane.begins);
  } else {
    lane.status = WithName(Name(), lane.status);
  }
  if (lane.asked.has_value()) Answer(&lane, out);
}

void StageCore::Wait(CallId call, v1::ComputeStageReply::State state, Time now,
                     Lane* lane, Outbox* out) {
  if (lane->asked.has_value()) {
    out->Refuse(
        lane->asked->call,
        Refuse(v1::Refusal::SUPERSEDED, "call",
               absl::StrCat(Name(), ": a later call asks for the same")));
  }
  lane->asked = Asked{call, now + kPatience, state};
}

// The operation has ended, or time has passed.
void StageCore::Answer(Lane* lane, Outbox* out) {
  const Asked asked = *lane->asked;
  lane->asked.reset();
  auto reply = std::make_unique<v1::ComputeStageReply>();
  reply->set_state(asked.state);
  if (asked.state == v1::ComputeStageReply::BUSY || lane->io != 0) {
    return out->Reply(asked.call, std::move(reply));
  }
  if (!lane->status.ok()) return out->Refuse(asked.call, lane->status);
  *reply = lane->result;
  reply->set_state(v1::ComputeStageReply::DONE);
  out->Reply(asked.call, std::move(reply),
             PieceOf(lane->payload, 0, options_.piece_bytes));
}

// ---- time -------------------------------------------------------------------

Time StageCore::next_tick() const {
  Time next = LosesPatience();
  for (const auto& [number, lane] : lanes_) {
    if (lane.asked.has_value()) next = std::min(next, lane.asked->until);
  }
  return next;
}

void StageCore::Tick(Time now, Outbox* out) {
  if (now > LosesPatience() + kStoodStill) {
    heard_ = now;  // The silence was not the worker's.
  } else if (now >= LosesPatience()) {
    return out->Exit(absl::UnavailableError(
        is_greeted_
            ? absl::StrCat(Name(), " has not heard of worker-", options_.worker,
                           " for ",
                           absl::FormatDuration(options_.worker_patience),
                           ": is it running?")
            : absl::StrCat("waited ",
                           absl::FormatDuration(options_.start_timeout),
                           " (start_timeout_ms) for the first call of worker-",
                           options_.worker)));
  }
  for (auto& [number, lane] : lanes_) {
    if (lane.asked.has_value() && lane.asked->until <= now) Answer(&lane, out);
  }
}

std::string StageCore::overdue(Time now) const {
  const std::string worker = absl::StrCat("worker-", options_.worker);
  if (!is_greeted_) return worker;
  if (now - heard_ > kMissed) {
    return absl::StrCat(worker, ", which has not called for a while");
  }
  return owner_.has_value() ? "" : absl::StrCat(worker, " to train");
}

}  // namespace paramd
