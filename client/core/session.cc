#include "client/core/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "client/core/session_answers.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// After a server has kept a pull for long and gave it back.
constexpr absl::Duration kAskAgain = absl::Milliseconds(10);

absl::Duration Backoff(int attempts) {
  return std::min(absl::Milliseconds(20) * (1 << std::min(attempts, 6)),
                  absl::Seconds(1));
}

// Whether the same request may succeed later.
bool IsWorthARetry(const absl::Status& status, v1::Refusal::Reason reason) {
  switch (reason) {
    case v1::Refusal::FENCED:
    case v1::Refusal::QUARANTINED:
    case v1::Refusal::JOB_FINISHED:
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
    case v1::Refusal::NOT_ALLOWED:
    case v1::Refusal::INVALID:
    case v1::Refusal::LATE:
      return false;
    case v1::Refusal::REASON_UNSPECIFIED:
      return !absl::IsInvalidArgument(status) &&
             !absl::IsUnimplemented(status) &&
             !absl::IsPermissionDenied(status);
    default:
      return true;
  }
}

}  // namespace

absl::Status Session::Configure(const v1::Configuration& configuration,
                                const v1::SessionId& generation) {
  if (configured() && !(configuration.version() > terms_.version)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      Placement placement,
      Placement::Create(configuration.layout(), configuration.servers_size()));
  if (placement.servers() == 0) {
    return absl::InvalidArgumentError("a configuration has no servers");
  }
  if (configured() && (placement.slices() != terms_.placement.slices() ||
                       placement.servers() != terms_.placement.servers())) {
    return absl::InvalidArgumentError(
        "a configuration of the same run has another layout");
  }
  SessionTerms next;
  next.options = terms_.options;
  next.version = configuration.version();
  next.generation = generation;
  next.placement = std::move(placement);
  for (const v1::ServerMember& member : configuration.servers()) {
    next.server_generations.push_back(member.generation());
    next.incarnations.push_back(member.incarnation());
    next.peers.push_back(PeerOf(member));
  }
  // An acknowledgement counts only for the life of the server that gave it.
  for (auto& [op, operation] : operations_) {
    if (!operation.is_push()) continue;
    for (Chunk& chunk : operation.chunks) {
      if (next.server_generations[chunk.server] >
          terms_.server_generations[chunk.server]) {
        if (chunk.done) ++operation.left;
        // The snapshot that the new life began with may have it.
        chunk.may_be_in |= chunk.done || chunk.call != 0;
        chunk.done = chunk.pulled = false;
        chunk.call = 0;
      }
    }
  }
  for (uint32_t server = 0; server < terms_.peers.size(); ++server) {
    if (next.peers[server] != terms_.peers[server]) LeavePlace(server);
  }
  terms_ = std::move(next);
  calls_.SetServers(terms_.placement.servers());
  return absl::OkStatus();
}

void Session::LeavePlace(uint32_t server) {
  for (auto& [op, operation] : operations_) {
    for (Chunk& chunk : operation.chunks) {
      if (chunk.server == server) chunk.call = 0;
    }
  }
  calls_.LeavePlace(server);
}

void Session::StartPull(OpId op, Weights* into, absl::optional<uint64_t> clock,
                        uint64_t after_step, Time now, Outbox* out) {
  Operation operation;
  operation.into = into;
  operation.clock = clock;
  operation.after_step = after_step;
  StartOperation(op, std::move(operation), now, out);
}

void Session::StartLookup(OpId op, SparseRows* rows,
                          absl::optional<uint64_t> clock, uint64_t after_step,
                          Time now, Outbox* out) {
  Operation operation;
  operation.lookup = rows;
  operation.clock = clock;
  operation.after_step = after_step;
  StartOperation(op, std::move(operation), now, out);
}

void Session::StartPush(OpId op, const PushInfo& info,
                        std::vector<Buffer> gradients, Time now, Outbox* out) {
  Operation operation;
  operation.push = info;
  operation.SetGradients(std::move(gradients), terms_.placement);
  StartOperation(op, std::move(operation), now, out);
}

void Session::AddGradients(OpId op, const std::vector<Buffer>& gradients,
                           Time now, Outbox* out) {
  const auto found = operations_.find(op);
  if (found == operations_.end() || found->second.whole) return;
  Operation& operation = found->second;
  operation.AddGradients(gradients, terms_.placement);
  // Until now it was not the servers that it waited for.
  if (operation.whole) operation.started = now;
  SendWhatMay(now, out);
}

void Session::StartOperation(OpId op, Operation operation, Time now,
                             Outbox* out) {
  CHECK(configured(), "a session is configured before it is used");
  operation.started = now;
  for (BlockChunk& cut : operation.Cut(terms_, calls_.MostBytes())) {
    Chunk& chunk = operation.chunks.emplace_back();
    static_cast<BlockChunk&>(chunk) = std::move(cut);
    chunk.retry_at = now;
    chunk.request_id =
        CounterRandom(terms_.options.request_id_seed).Bits(next_request_++);
  }
  operation.left = operation.chunks.size();
  operations_[op] = std::move(operation);
  if (operations_[op].left == 0) End(op, absl::OkStatus());
  SendWhatMay(now, out);
}

void Session::SendWhatMay(Time now, Outbox* out) {
  for (auto& [op, operation] : operations_) {
    for (size_t c = 0; c < operation.chunks.size(); ++c) {
      const Chunk& chunk = operation.chunks[c];
      if (chunk.done || chunk.call != 0 || chunk.retry_at > now) continue;
      if (!calls_.HasRoom(op, chunk)) continue;
      if (operation.IsReady(chunk, terms_.placement)) {
        SendChunk(op, &operation, c, now, out);
      }
    }
  }
}

void Session::SendChunk(OpId op, Operation* operation, size_t index, Time now,
                        Outbox* out) {
  Chunk& chunk = operation->chunks[index];
  chunk.call = calls_.Begin({op, index, chunk.server, chunk.bytes, now});
  if (chunk.attempts++ > 0) ++chunks_resent_;
  BufferChain payload;
  Outbox::Head head =
      operation->MakeRequest(chunk, terms_, acknowledged_, &payload);
  out->Send(PeerId::Ps(terms_.peers[chunk.server]), chunk.call, std::move(head),
            std::move(payload), terms_.options.call_deadline);
}

bool Session::Receive(const Message& message, Time now, Outbox* out) {
  if (!message.is_reply || !SessionCalls::IsOne(message.call)) return false;
  const auto made = calls_.End(message);
  if (!made.has_value()) return true;  // Its second answer.
  const auto found = operations_.find(made->op);
  // A chunk that was reset meanwhile has another call or none, and an operation
  // that was given up and begun again may be cut into fewer.
  if (found != operations_.end() && made->chunk < found->second.chunks.size() &&
      found->second.chunks[made->chunk].call == message.call) {
    Operation& operation = found->second;
    Chunk& chunk = operation.chunks[made->chunk];
    chunk.call = 0;
    bool has_weights = false;
    const absl::Status status =
        message.status.ok()
            ? TakeAnswer(message, terms_, operation, &chunk, &has_weights)
            : message.status;
    if (has_weights) calls_.NotePullTime(chunk.server, now - made->sent);
    if (status.ok()) {
      MarkDone(made->op, &operation, &chunk);
    } else {
      HandleFailure(made->op, &chunk, status, now, out);
    }
  }
  SendWhatMay(now, out);
  return true;
}

void Session::HandleFailure(OpId op, Chunk* chunk, const absl::Status& status,
                            Time now, Outbox* out) {
  const v1::Refusal refusal = RefusalOf(status);
  Operation& operation = operations_[op];
  if (refusal.reason() == v1::Refusal::SUPERSEDED && operation.is_push()) {
    if (!chunk->may_be_in) {
      return End(op, NotSentByUs(terms_, operation, *chunk));
    }
    MarkDone(op, &operation, chunk);
    return;
  }
  if (!IsWorthARetry(status, refusal.reason())) {
    // Given up: none of its chunks is resent.
    if (refusal.reason() == v1::Refusal::QUARANTINED && operation.is_push()) {
      acknowledged_ = operation.push.sequence;
    }
    End(op, status);
    return;
  }
  if (refusal.reason() == v1::Refusal::WAIT && !operation.is_push()) {
    HandleWait(&operation, chunk, status, now, out);
    return;
  }
  // A refusal in words says that nothing of it was applied.
  if (refusal.reason() == v1::Refusal::REASON_UNSPECIFIED) {
    chunk->may_be_in = true;
  }
  chunk->slower.clear();
  chunk->why = std::string(status.message());
  chunk->retry_at =
      now + std::max(Backoff(chunk->attempts),
                     absl::Milliseconds(refusal.retry_after_ms()));
}

// The server has kept the call for a while; it will keep the next one.
void Session::HandleWait(Operation* operation, Chunk* chunk,
                         const absl::Status& status, Time now, Outbox* out) {
  const v1::Refusal refusal = RefusalOf(status);
  chunk->slower = refusal.waiting_for();
  chunk->attempts = 0;
  chunk->retry_at =
      now + std::max(kAskAgain, absl::Milliseconds(refusal.retry_after_ms()));
  if (std::exchange(operation->wait_told, true)) return;
  out->Note(
      absl::StrCat("waiting for ", chunk->slower, ": ", status.message()));
}

void Session::MarkDone(OpId op, Operation* operation, Chunk* chunk) {
  chunk->done = true;
  if (--operation->left == 0) {
    if (operation->is_push()) acknowledged_ = operation->push.sequence;
    const std::vector<Chunk>& chunks = operation->chunks;
    End(op, absl::OkStatus(),
        std::all_of(chunks.begin(), chunks.end(), [](const Chunk& c) {
          return c.pulled || !c.rows.empty();
        }));
  }
}

void Session::End(OpId op, absl::Status status, bool pulled) {
  operations_.erase(op);
  finished_.push_back({op, std::move(status), pulled});
}

void Session::Tick(Time now, Outbox* out) {
  std::vector<OpId> late;
  for (const auto& [op, operation] : operations_) {
    if (operation.whole &&
        now - operation.started >= terms_.options.give_up_after) {
      late.push_back(op);
    }
  }
  for (const OpId op : late) {
    const Operation& operation = operations_[op];
    const bool push = operation.is_push();
    if (push) acknowledged_ = operation.push.sequence;
    End(op, absl::DeadlineExceededError(
                absl::StrCat(push ? "push" : "pull", " given up after ",
                             absl::FormatDuration(terms_.options.give_up_after),
                             "; waiting for ", WaitingFor(operation))));
  }
  SendWhatMay(now, out);
}

Time Session::next_tick() const {
  Time next = Time::Never();
  for (const auto& [op, operation] : operations_) {
    if (operation.whole) {
      next = std::min(next, operation.started + terms_.options.give_up_after);
    }
    for (const Chunk& chunk : operation.chunks) {
      const bool waits = !chunk.done && chunk.call == 0 &&
                         calls_.HasRoom(op, chunk) &&
                         operation.IsReady(chunk, terms_.placement);
      if (waits) next = std::min(next, chunk.retry_at);
    }
  }
  return next;
}

absl::optional<Session::Finished> Session::TakeFinished() {
  if (finished_.empty()) return absl::nullopt;
  Finished finished = std::move(finished_.front());
  finished_.pop_front();
  return finished;
}

std::string Session::waiting_for() const {
  return operations_.empty() ? "" : WaitingFor(operations_.begin()->second);
}

std::string Session::WaitingFor(const Operation& operation) const {
  const std::string self = WorkerName(terms_.options.worker, terms_.generation);
  for (const Chunk& chunk : operation.chunks) {
    if (chunk.done || chunk.slower.empty()) continue;
    return absl::StrCat(
        chunk.slower,
        operation.after_step > 0 ? ": " : ", the slowest, to get on: ",
        terms_.NameOfServer(chunk.server), " keeps a pull of ", self,
        " until then");
  }
  for (const Chunk& chunk : operation.chunks) {
    if (chunk.done || !operation.IsReady(chunk, terms_.placement)) continue;
    return absl::StrCat(terms_.NameOfServer(chunk.server), " to answer a ",
                        operation.is_push() ? "push" : "pull", " of ", self,
                        chunk.why.empty() ? "" : ": ", chunk.why);
  }
  return "";
}

std::string Session::overdue(Time now, absl::Duration patience) const {
  const auto is_late = [&](const auto& operation) {
    return now - operation.second.started > patience;
  };
  return std::any_of(operations_.begin(), operations_.end(), is_late)
             ? waiting_for()
             : "";
}

}  // namespace paramd
