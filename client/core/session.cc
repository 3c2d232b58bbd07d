#include "client/core/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "client/core/untouched.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "tensor/number_reader.h"

namespace paramd {
namespace {

// Calls of a session are told from other calls of the same node by this bit.
constexpr CallId kSessionCall = CallId{1} << 63;
constexpr size_t kPullTimes = 64;
// A message takes no more.
constexpr uint64_t kMostChunkBytes = uint64_t{4} << 20;
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
  if (configured() && !(configuration.version() > configuration_.version)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      Placement placement,
      Placement::Create(configuration.layout(), configuration.servers_size()));
  if (placement.servers() == 0) {
    return absl::InvalidArgumentError("a configuration has no servers");
  }
  if (configured() && (placement.slices() != placement_.slices() ||
                       placement.servers() != placement_.servers())) {
    return absl::InvalidArgumentError(
        "a configuration of the same run has another layout");
  }
  ConfigurationInfo next;
  next.version = configuration.version();
  next.generation = generation;
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
          configuration_.server_generations[chunk.server]) {
        if (chunk.done) ++operation.left;
        // The snapshot that the new life began with may have it.
        chunk.may_be_in |= chunk.done || chunk.call != 0;
        chunk.done = chunk.pulled = false;
        chunk.call = 0;
      }
    }
  }
  for (uint32_t server = 0; server < configuration_.peers.size(); ++server) {
    if (next.peers[server] != configuration_.peers[server]) LeavePlace(server);
  }
  configuration_ = std::move(next);
  placement_ = std::move(placement);
  servers_.resize(placement_.servers());
  return absl::OkStatus();
}

void Session::LeavePlace(uint32_t server) {
  for (auto& [op, operation] : operations_) {
    for (Chunk& chunk : operation.chunks) {
      if (chunk.server == server) chunk.call = 0;
    }
  }
  absl::erase_if(calls_, [server](const auto& call) {
    return call.second.server == server;
  });
  servers_[server].calls = 0;
  servers_[server].bytes.clear();
  servers_[server].in_shared_memory = false;
}

v1::ConfigurationVersion Session::configuration_version() const {
  return configuration_.version;
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
  CHECK(gradients.size() == (info.empty ? 0 : placement_.elements().size()),
        "a push has one gradient for each variable");
  CheckSizes(gradients, info.rows);
  Operation operation;
  operation.push = info;
  operation.gradients = std::move(gradients);
  operation.whole = IsWhole(operation);
  StartOperation(op, std::move(operation), now, out);
}

void Session::AddGradients(OpId op, const std::vector<Buffer>& gradients,
                           Time now, Outbox* out) {
  const auto found = operations_.find(op);
  if (found == operations_.end() || found->second.whole) return;
  Operation& operation = found->second;
  CheckSizes(gradients, operation.push.rows);
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (!operation.gradients[v].empty()) continue;
    CHECK(!IsUntouched(gradients[v]),
          "what a push leaves as it is is known when it begins");
    operation.gradients[v] = gradients[v];
  }
  operation.whole = IsWhole(operation);
  // Until now it was not the servers that it waited for.
  if (operation.whole) operation.started = now;
  SendWhatMay(now, out);
}

uint64_t Session::GradientBytes(size_t variable, const SparseRows* rows) const {
  const auto& sparse = placement_.sparse();
  const auto place = std::lower_bound(sparse.begin(), sparse.end(), variable);
  if (place == sparse.end() || *place != variable) {
    return placement_.elements()[variable] * sizeof(float);
  }
  return rows == nullptr ? 0 : rows->values(place - sparse.begin()).size();
}

void Session::CheckSizes(const std::vector<Buffer>& gradients,
                         const SparseRows* rows) const {
  for (size_t v = 0; v < gradients.size(); ++v) {
    CHECK(gradients[v].empty() || IsUntouched(gradients[v]) ||
              gradients[v].size() == GradientBytes(v, rows),
          "a gradient has the size of its variable, or of its rows");
  }
}

bool Session::HasGradient(const Operation& operation, size_t variable) const {
  return !operation.gradients[variable].empty() ||
         GradientBytes(variable, operation.push.rows) == 0;
}

bool Session::IsWhole(const Operation& operation) const {
  for (size_t v = 0; v < operation.gradients.size(); ++v) {
    if (!HasGradient(operation, v)) return false;
  }
  return true;
}

void Session::StartOperation(OpId op, Operation operation, Time now,
                             Outbox* out) {
  CHECK(configured(), "a session is configured before it is used");
  operation.started = now;
  operation.chunks = CutIntoChunks(operation, now);
  operation.left = operation.chunks.size();
  operations_[op] = std::move(operation);
  if (operations_[op].left == 0) End(op, absl::OkStatus());
  SendWhatMay(now, out);
}

uint64_t Session::MostBytes(uint32_t server) const {
  if (!servers_[server].in_shared_memory) return options_.chunk_bytes;
  return std::min(4 * options_.chunk_bytes, kMostChunkBytes);
}

// A pull that a server keeps waiting takes nothing of a push's share. With two
// chunks under way both ends have something to do.
bool Session::HasRoom(OpId op, const Chunk& chunk) const {
  const Server& server = servers_[chunk.server];
  if (server.calls >= options_.calls_per_server) return false;
  const auto under_way = server.bytes.find(op);
  return under_way == server.bytes.end() ||
         under_way->second + chunk.bytes <=
             std::max(options_.calls_per_server * options_.chunk_bytes,
                      2 * MostBytes(chunk.server));
}

void Session::SendWhatMay(Time now, Outbox* out) {
  for (auto& [op, operation] : operations_) {
    for (size_t c = 0; c < operation.chunks.size(); ++c) {
      const Chunk& chunk = operation.chunks[c];
      if (chunk.done || chunk.call != 0 || chunk.retry_at > now) continue;
      if (!HasRoom(op, chunk)) continue;
      if (IsReady(operation, chunk)) SendChunk(op, &operation, c, now, out);
    }
  }
}

bool Session::IsReady(const Operation& operation, const Chunk& chunk) const {
  if (operation.whole) return true;
  return std::none_of(
      chunk.blocks.begin(), chunk.blocks.end(), [&](const BlockId& id) {
        const uint32_t variable = placement_.slices()[id.slice].variable;
        return !HasGradient(operation, variable);
      });
}

void Session::SendChunk(OpId op, Operation* operation, size_t index, Time now,
                        Outbox* out) {
  Chunk& chunk = operation->chunks[index];
  chunk.call = kSessionCall | next_call_++;
  if (chunk.attempts++ > 0) ++chunks_resent_;
  calls_[chunk.call] = {op, index, chunk.server, chunk.bytes, now};
  ++servers_[chunk.server].calls;
  servers_[chunk.server].bytes[op] += chunk.bytes;
  BufferChain payload;
  Outbox::Head head = operation->is_push()
                          ? MakePush(*operation, chunk, &payload)
                          : MakePull(*operation, chunk, &payload);
  out->Send(PeerId::Ps(configuration_.peers[chunk.server]), chunk.call,
            std::move(head), std::move(payload), options_.call_deadline);
}

bool Session::Receive(const Message& message, Time now, Outbox* out) {
  if (!message.is_reply || (message.call & kSessionCall) == 0) return false;
  const auto call = calls_.find(message.call);
  if (call == calls_.end()) return true;  // Its second answer.
  const Call made = call->second;
  calls_.erase(call);
  EndCall(made, message);
  const auto found = operations_.find(made.op);
  // A chunk that was reset meanwhile has another call or none, and an operation
  // that was given up and begun again may be cut into fewer.
  if (found != operations_.end() && made.chunk < found->second.chunks.size() &&
      found->second.chunks[made.chunk].call == message.call) {
    Operation& operation = found->second;
    Chunk& chunk = operation.chunks[made.chunk];
    chunk.call = 0;
    const absl::Status status =
        message.status.ok()
            ? HandleAnswer(&operation, &chunk, message, now - made.sent)
            : message.status;
    if (status.ok()) {
      MarkDone(made.op, &operation, &chunk);
    } else {
      HandleFailure(made.op, &chunk, status, now, out);
    }
  }
  SendWhatMay(now, out);
  return true;
}

void Session::EndCall(const Call& call, const Message& message) {
  Server& server = servers_[call.server];
  --server.calls;
  uint64_t& bytes = server.bytes[call.op];
  bytes -= call.bytes;
  if (bytes == 0) server.bytes.erase(call.op);
  if (message.status.ok()) server.in_shared_memory = message.in_shared_memory;
}

void Session::HandleFailure(OpId op, Chunk* chunk, const absl::Status& status,
                            Time now, Outbox* out) {
  const v1::Refusal refusal = RefusalOf(status);
  Operation& operation = operations_[op];
  if (refusal.reason() == v1::Refusal::SUPERSEDED && operation.is_push()) {
    if (!chunk->may_be_in) return End(op, NotSentByUs(operation, *chunk));
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
    if (operation.whole && now - operation.started >= options_.give_up_after) {
      late.push_back(op);
    }
  }
  for (const OpId op : late) {
    const Operation& operation = operations_[op];
    const bool push = operation.is_push();
    if (push) acknowledged_ = operation.push.sequence;
    End(op, absl::DeadlineExceededError(
                absl::StrCat(push ? "push" : "pull", " given up after ",
                             absl::FormatDuration(options_.give_up_after),
                             "; waiting for ", WaitingFor(operation))));
  }
  SendWhatMay(now, out);
}

Time Session::next_tick() const {
  Time next = Time::Never();
  for (const auto& [op, operation] : operations_) {
    if (operation.whole) {
      next = std::min(next, operation.started + options_.give_up_after);
    }
    for (const Chunk& chunk : operation.chunks) {
      const bool waits = !chunk.done && chunk.call == 0 && HasRoom(op, chunk) &&
                         IsReady(operation, chunk);
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
  const std::string self =
      WorkerName(options_.worker, configuration_.generation);
  for (const Chunk& chunk : operation.chunks) {
    if (chunk.done || chunk.slower.empty()) continue;
    return absl::StrCat(
        chunk.slower,
        operation.after_step > 0 ? ": " : ", the slowest, to get on: ",
        NameOfServer(chunk.server), " keeps a pull of ", self, " until then");
  }
  for (const Chunk& chunk : operation.chunks) {
    if (chunk.done || !IsReady(operation, chunk)) continue;
    return absl::StrCat(NameOfServer(chunk.server), " to answer a ",
                        operation.is_push() ? "push" : "pull", " of ", self,
                        chunk.why.empty() ? "" : ": ", chunk.why);
  }
  return "";
}

std::string Session::NameOfServer(uint32_t server) const {
  return ServerName(server, configuration_.server_generations[server]);
}

std::string Session::overdue(Time now, absl::Duration patience) const {
  const auto is_late = [&](const auto& operation) {
    return now - operation.second.started > patience;
  };
  return std::any_of(operations_.begin(), operations_.end(), is_late)
             ? waiting_for()
             : "";
}

absl::Duration Session::PullLatency(uint32_t server) const {
  if (server >= servers_.size() || servers_[server].pull_times.empty()) {
    return absl::ZeroDuration();
  }
  std::vector<absl::Duration> times(servers_[server].pull_times.begin(),
                                    servers_[server].pull_times.end());
  const auto middle = times.begin() + times.size() / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void Session::NotePullTime(uint32_t server, absl::Duration time) {
  std::deque<absl::Duration>& times = servers_[server].pull_times;
  if (times.size() == kPullTimes) times.pop_front();
  times.push_back(time);
}

}  // namespace paramd
