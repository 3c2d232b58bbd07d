#include "client/core/session_calls.h"

#include <algorithm>

namespace paramd {
namespace {

// Calls of a session are told from other calls of the same node by this bit.
constexpr CallId kSessionCall = CallId{1} << 63;
constexpr size_t kPullTimes = 64;
// A message takes no more.
constexpr uint64_t kMostChunkBytes = uint64_t{4} << 20;

}  // namespace

SessionCalls::SessionCalls(const SessionOptions& options)
    : chunk_bytes_(options.chunk_bytes),
      calls_per_server_(options.calls_per_server),
      next_call_(options.first_call) {}

uint64_t SessionCalls::MostBytes(const Server& server) const {
  if (!server.in_shared_memory) return chunk_bytes_;
  return std::min(4 * chunk_bytes_, kMostChunkBytes);
}

std::vector<uint64_t> SessionCalls::MostBytes() const {
  std::vector<uint64_t> most;
  for (const Server& server : servers_) most.push_back(MostBytes(server));
  return most;
}

// A pull that a server keeps waiting takes nothing of a push's share. With two
// chunks under way both ends have something to do.
bool SessionCalls::HasRoom(uint64_t op, const BlockChunk& chunk) const {
  const Server& server = servers_[chunk.server];
  if (server.calls >= calls_per_server_) return false;
  const auto under_way = server.bytes.find(op);
  return under_way == server.bytes.end() ||
         under_way->second + chunk.bytes <=
             std::max(calls_per_server_ * chunk_bytes_, 2 * MostBytes(server));
}

CallId SessionCalls::Begin(const Call& call) {
  const CallId id = kSessionCall | next_call_++;
  calls_[id] = call;
  Server& server = servers_[call.server];
  ++server.calls;
  server.bytes[call.op] += call.bytes;
  return id;
}

bool SessionCalls::IsOne(CallId call) { return (call & kSessionCall) != 0; }

absl::optional<SessionCalls::Call> SessionCalls::End(const Message& answer) {
  const auto found = calls_.find(answer.call);
  if (found == calls_.end()) return absl::nullopt;
  const Call call = found->second;
  calls_.erase(found);
  Server& server = servers_[call.server];
  --server.calls;
  uint64_t& bytes = server.bytes[call.op];
  bytes -= call.bytes;
  if (bytes == 0) server.bytes.erase(call.op);
  if (answer.status.ok()) server.in_shared_memory = answer.in_shared_memory;
  return call;
}

void SessionCalls::LeavePlace(uint32_t server) {
  absl::erase_if(calls_, [server](const auto& call) {
    return call.second.server == server;
  });
  servers_[server].calls = 0;
  servers_[server].bytes.clear();
  servers_[server].in_shared_memory = false;
}

void SessionCalls::NotePullTime(uint32_t server, absl::Duration time) {
  std::deque<absl::Duration>& times = servers_[server].pull_times;
  if (times.size() == kPullTimes) times.pop_front();
  times.push_back(time);
}

absl::Duration SessionCalls::PullLatency(uint32_t server) const {
  if (server >= servers_.size() || servers_[server].pull_times.empty()) {
    return absl::ZeroDuration();
  }
  std::vector<absl::Duration> times(servers_[server].pull_times.begin(),
                                    servers_[server].pull_times.end());
  const auto middle = times.begin() + times.size() / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace paramd
