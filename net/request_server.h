#ifndef PARAMD_NET_REQUEST_SERVER_H_
#define PARAMD_NET_REQUEST_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

#include "base/time.h"
#include "net/caller.h"
#include "net/core_host.h"
#include "net/health.h"
#include "net/health_server.h"
#include "net/hello.h"
#include "net/listener.h"
#include "net/memory_listener.h"
#include "net/method_table.h"
#include "net/reflection.h"
#include "net/stream_server.h"
#include "net/tls.h"
#include "net/wire_message.h"

namespace paramd {

// Takes requests from the network: checks size, caller, role and form, answers
// Control itself and gives the rest to the core that serves the method. Health
// and reflection are beside them, see StreamServer.
//
// Invariant: every request is answered exactly once: by its core, or refused at
// the caller's deadline (60 s if it gave none), or forgotten when its caller has
// gone. Bound: of each method 1,024 requests wait for a core, or 64 for each
// worker if that is more; more are refused with OVER_LIMIT and a retry hint. So
// calls that a core keeps take nothing of those that would release them. A call
// whose answer is not taken within longest_unread is cut; of more than 4,096 such
// answers the oldest is, if that is a second old.
//
// Not thread-safe: lives on the loop thread, the one that reads queue(). The
// host outlives it.
class RequestServer {
 public:
  // Serves who connects to `listener`: over TLS with `tls`, unless null, but for
  // the sockets that were added to it, which are the operators'. kInternal if
  // gRPC doesn't start. `stop` is called when an operator says so.
  static absl::StatusOr<std::unique_ptr<RequestServer>> Make(
      std::unique_ptr<Listener> listener, const Identity* self, CoreHost* host,
      std::shared_ptr<const Tls> tls, std::function<void(absl::Status)> stop);
  ~RequestServer();

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

  // What gRPC may hold of what it receives; no less than 256 MiB. Beyond that it
  // closes connections: it checks a message's length only when it has all of it.
  void LimitReceived(uint64_t bytes);

  // As GrpcRuntimeOptions says.
  void LimitUnread(absl::Duration longest) { longest_unread_ = longest; }

  // All the process's operations may use it.
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Begins to take requests.
  void Start();
  // The process is not ready any more, and says so to who watches its health.
  void SetDraining() { health_.SetDraining(); }
  // As CoreHost::Transport.
  void Reply(Outbox::ReplyItem item);
  // Cancels the call whose answer, one of 4 KiB at least, is being sent for the
  // longest time, if that is a second: a caller that does not read pins memory.
  void CancelOldestReply(Time now);
  // Refuses what waits beyond its deadline, cuts the calls whose answers nobody
  // takes, tells what has changed.
  void Expire(Time now);
  Time next_deadline() const;
  // Of answers that are not sent yet.
  uint64_t pinned_bytes() const { return pinned_bytes_; }
  // Answers that are not sent yet.
  int answers_under_way() const {
    return answers_under_way_ + streams_.ends_under_way();
  }
  // Refuses everything that waits, and whatever still comes.
  void RefuseAll(const absl::Status& status);
  // Closes the connections and cuts short what is not sent. Requests still come
  // out of the queue until none is left: then the queue may be shut down.
  void Shutdown();
  int requests_left() const { return requests_left_ + streams_.calls_left(); }

 private:
  class RawService;
  class Request;
  static constexpr size_t kLeastWaitingIn = 1024;
  static constexpr size_t kLeastUnread = 4096;

  RequestServer(const Identity* self, CoreHost* host,
                std::function<void(absl::Status)> stop);
  void Expect(int method);
  void Arrived(Request* request);
  absl::StatusOr<Caller> CallerOf(const Request& request) const;
  absl::Status Take(Request* request);
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
  absl::Duration Patience() const;
  void CutUnread(Time now);
  PeerId FirstServer() const;
  PeerId CoreOf(const Method& method, uint32_t shard) const;
  absl::StatusOr<uint32_t> ShardOf(const Request& request) const;
  bool IsServed(const google::protobuf::ServiceDescriptor* service) const;
  bool IsRestored() const;
  void CountRefusal(const std::string& peer, const absl::Status& status);

  const Identity* const self_;
  const std::string process_;  // As callers say whom they mean.
  CoreHost* const host_;
  const std::function<void(absl::Status)> stop_;
  std::unique_ptr<RawService> service_;
  Health health_;
  Reflection reflection_;
  StreamServer streams_;
  std::unique_ptr<HealthServer> health_server_;  // May be null.
  std::unique_ptr<MemoryListener> memories_;     // May be null.
  grpc::ResourceQuota received_{"received"};
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<const Tls> tls_;  // May be null.
  // Of connections from other processes, and of the operators' socket.
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<Acceptor> operators_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  absl::flat_hash_map<CallId, Request*> waiting_;  // Owned by themselves.
  std::vector<size_t> waiting_in_;  // Of those, for each shard by method.
  size_t most_waiting_in_ = kLeastWaitingIn;
  std::set<std::pair<Time, CallId>> deadlines_;    // One for each of waiting_.
  absl::Status refuse_all_;  // Not OK: the answer to everything.
  int requests_left_ = 0;    // Posted ahead, waiting or being answered.
  int answers_under_way_ = 0;
  absl::Duration longest_unread_ = absl::Seconds(60);
  size_t most_unread_ = kLeastUnread;  // Beyond, the oldest are cut sooner.
  std::list<Request*> unread_;  // Those whose calls are not cut yet, by age.
  std::map<uint64_t, Request*> long_answers_;  // Of those, by age.
  uint64_t next_answer_ = 0;
  uint64_t pinned_bytes_ = 0;
  uint64_t given_up_ = 0;
  uint64_t cut_ = 0;
  uint64_t over_limit_ = 0;
  uint64_t strangers_ = 0;
  uint64_t for_others_ = 0;
  bool shut_down_ = false;
};

}  // namespace paramd

#endif  // PARAMD_NET_REQUEST_SERVER_H_
