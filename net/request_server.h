#ifndef PARAMD_NET_REQUEST_SERVER_H_
#define PARAMD_NET_REQUEST_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/completion_queue.h"

#include "base/chrome_trace.h"
#include "base/time.h"
#include "net/answers_under_way.h"
#include "net/call_counts.h"
#include "net/caller.h"
#include "net/core_host.h"
#include "net/grpc_server.h"
#include "net/health.h"
#include "net/health_server.h"
#include "net/hello.h"
#include "net/listener.h"
#include "net/memory_listener.h"
#include "net/method_table.h"
#include "net/operator_calls.h"
#include "net/process_calls.h"
#include "net/reflection.h"
#include "net/refused_calls.h"
#include "net/stream_server.h"
#include "net/tls.h"
#include "net/wire_message.h"

namespace paramd {

// Takes requests from the network: checks size, caller, role and form, answers
// Control itself and gives the rest to the core that serves the method. Health
// and reflection are beside them, see StreamServer.
//
// Invariant: every request is answered exactly once: by its core, or refused at
// the caller's deadline (60 s if it gave none), or forgotten when its caller
// has gone. Bound: of each method 1,024 requests wait for a core, or 64 for
// each worker if that is more; more are refused with OVER_LIMIT and a retry
// hint. So calls that a core keeps take nothing of those that would release
// them. Of answers: see AnswersUnderWay.
//
// Not thread-safe: lives on the loop thread, the one that reads queue(). The
// host outlives it.
class RequestServer {
 public:
  // Serves who connects to `listener`, as GrpcServer::Make says. `stop` is
  // called when an operator says so; `calls`, unless null, answers what is for
  // the process and is not Control. `operators` is told what operators ask, and
  // who else tries to; null: the log is.
  static absl::StatusOr<std::unique_ptr<RequestServer>> Make(
      std::unique_ptr<Listener> listener, const Identity* self, CoreHost* host,
      std::shared_ptr<const Tls> tls, std::function<void(absl::Status)> stop,
      ProcessCalls calls, std::shared_ptr<OperatorCalls> operators = nullptr);

  // Payloads may also lie in memory that `memories` takes over; null: in none.
  // REQUIRES: called before Start.
  void ShareMemory(std::unique_ptr<MemoryListener> memories) {
    memories_ = std::move(memories);
  }

  // Also serves health, and nothing else, without TLS at an address of its own.
  // REQUIRES: called before Start.
  absl::Status ServeHealth(const std::string& address, bool anywhere,
                           HealthServer::Post post);

  // So many workers call. REQUIRES: called before Start.
  void MakeRoomFor(uint32_t workers);

  // Records there what is taken from the network, as long as that wants it;
  // null, as at first: nowhere. REQUIRES: called before Start.
  void RecordIn(ChromeTrace* trace) { trace_ = trace; }

  // As GrpcServer.
  void LimitReceived(uint64_t bytes) { grpc_->LimitReceived(bytes); }

  // As GrpcRuntimeOptions says.
  void LimitUnread(absl::Duration longest) { answers_.LimitUnread(longest); }

  // All the process's operations may use it.
  grpc::ServerCompletionQueue* queue() { return grpc_->queue(); }

  // Begins to take requests.
  void Start();
  // The process is not ready any more, and says so to who watches its health.
  void SetDraining() { health_.SetDraining(); }
  // As CoreHost::Transport.
  void Reply(Outbox::ReplyItem item);
  // Cancels the call whose answer, one of 4 KiB at least, is being sent for the
  // longest time, if that is a second: a caller that does not read pins memory.
  void CancelOldestReply(Time now) { answers_.CancelOldest(now); }
  // Refuses what waits beyond its deadline, cuts the calls whose answers nobody
  // takes, tells what has changed.
  void Expire(Time now);
  Time next_deadline() const;
  // Of answers that are not sent yet.
  uint64_t pinned_bytes() const { return answers_.pinned_bytes(); }
  // Answers that are not sent yet.
  int answers_under_way() const {
    return static_cast<int>(answers_.size()) + streams_.ends_under_way();
  }
  // Refuses everything that waits, and whatever still comes.
  void RefuseAll(const absl::Status& status);
  // Closes the connections and cuts short what is not sent. Requests still come
  // out of the queue until none is left: then the queue may be shut down.
  void Shutdown();
  // What its cores say, and how calls were answered.
  void FillStatus(v1::StatusReply* status) const;
  int requests_left() const { return requests_left_ + streams_.calls_left(); }

 private:
  class Request;
  static constexpr size_t kLeastWaitingIn = 1024;

  RequestServer(const Identity* self, CoreHost* host,
                std::function<void(absl::Status)> stop, ProcessCalls calls,
                std::shared_ptr<OperatorCalls> operators);
  void Expect(int method);
  void Arrived(Request* request);
  absl::Status Take(Request* request);
  absl::StatusOr<Caller> CallerOf(Request* request);
  absl::Status CheckMayCall(const Caller& caller, const Method& method);
  v1::Origin OriginOf(const Caller& caller) const;
  void TellOfOperator(const Caller& caller, Request* request,
                      google::protobuf::Message* head);
  absl::Status TakePayload(Request* request, WireMessage* message);
  absl::Status TakeControl(Request* request, const Caller& caller,
                           const WireMessage& message);
  absl::Status GiveToCore(Request* request, const Caller& caller,
                          WireMessage message);
  // It waits for its core no more.
  void Forget(Request* request);
  // Its caller has gone, and waits no more for an answer.
  void Gone(Request* request);
  void Answer(Request* request, const absl::Status& status,
              const google::protobuf::Message* head,
              const BufferChain& payload);
  bool IsServed(const google::protobuf::ServiceDescriptor* service) const;
  bool IsRestored() const;

  const Identity* const self_;
  const std::string process_;  // As callers say whom they mean.
  CoreHost* const host_;
  const std::function<void(absl::Status)> stop_;
  const ProcessCalls process_calls_;  // May be null.
  const std::shared_ptr<OperatorCalls> operators_;
  Health health_;
  Reflection reflection_;
  StreamServer streams_;
  std::unique_ptr<HealthServer> health_server_;  // May be null.
  std::unique_ptr<MemoryListener> memories_;     // May be null.
  std::unique_ptr<GrpcServer> grpc_;
  absl::flat_hash_map<CallId, Request*> waiting_;  // Owned by themselves.
  std::vector<size_t> waiting_in_;  // Of those, for each shard by method.
  size_t most_waiting_in_ = kLeastWaitingIn;
  std::set<std::pair<Time, CallId>> deadlines_;  // One for each of waiting_.
  absl::Status refuse_all_;  // Not OK: the answer to everything.
  int requests_left_ = 0;    // Posted ahead, waiting or being answered.
  AnswersUnderWay answers_;
  RefusedCalls refused_;
  CallCounts counts_;
  ChromeTrace* trace_ = nullptr;
  bool shut_down_ = false;
};

}  // namespace paramd

#endif  // PARAMD_NET_REQUEST_SERVER_H_
