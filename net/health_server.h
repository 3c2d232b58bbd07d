#ifndef PARAMD_NET_HEALTH_SERVER_H_
#define PARAMD_NET_HEALTH_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

#include "base/mutex.h"
#include "base/time.h"
#include "net/health.h"
#include "net/listener.h"
#include "net/stream_server.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Health alone, without TLS, on a port of its own: for probes of a process
// whose other port speaks TLS. Nothing else is served there: other methods are
// UNIMPLEMENTED, messages of more than 4 KiB refused, at most 64 connections
// open.
//
// What comes is answered on the loop thread, so that liveness is that of the
// loop; a thread of its own only waits for it. All but that lives on the loop
// thread. `health` outlives it.
class HealthServer {
 public:
  // Runs a function on the loop thread; not at all once the loop has ended.
  using Post = std::function<void(std::function<void()>)>;

  // Listens at `address`, anywhere or on loopback addresses alone. Errors as of
  // CheckListenAddress and ListenAt.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Listen(
      const std::string& address, bool anywhere, Health* health, Post post);
  // REQUIRES: Shutdown was called, if Start was.
  ~HealthServer();

  void Start();
  void Expire(Time now) { streams_.Expire(now); }
  Time next_deadline() const { return streams_.next_deadline(); }
  void RefuseAll(const absl::Status& status) { streams_.RefuseAll(status); }
  // Adds what was refused at its port since it began.
  void FillStatus(v1::StatusReply* status) const;
  // Ends every call, and waits until that is done.
  void Shutdown();

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  HealthServer(std::unique_ptr<Listener> listener, Post post)
      : post_(std::move(post)), listener_(std::move(listener)) {}
  void WaitForEvents();  // The thread.
  void Complete() ABSL_LOCKS_EXCLUDED(mutex_);

  const Post post_;
  std::unique_ptr<Listener> listener_;
  StreamServer streams_;
  grpc::ResourceQuota received_{"health"};
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  CondVar came_;
  // Operations that have ended, and whether well, which wait for the loop.
  std::vector<std::pair<void*, bool>> events_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_NET_HEALTH_SERVER_H_
