#ifndef PARAMD_NET_GRPC_SERVER_H_
#define PARAMD_NET_GRPC_SERVER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/byte_buffer.h"

#include "net/caller.h"
#include "net/connection_quota.h"
#include "net/listener.h"
#include "net/stream_server.h"
#include "net/tls.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// The gRPC server of this process. It serves the methods of services.proto,
// whose requests and answers it passes on as bytes, and streams beside them; it
// takes connections from a Listener, sets limits, and finds out who calls.
//
// Not thread-safe: lives on the loop thread, the one that reads queue().
class GrpcServer {
 public:
  // Of one connection.
  struct Calls {
    int most;   // That may be under way.
    int usual;  // A process of the job sends no more bytes at once than so many
                // of the largest requests have.
  };

  // Serves who connects to `listener`: over TLS with `tls`, unless null, but
  // for the sockets that were added to it, which are the operators'. A
  // connection has `calls.most` under way at most, and is closed when it sends
  // more than the largest requests of so many calls without one being complete
  // (ConnectionQuota). kInternal if gRPC doesn't start.
  // `streams` outlives it.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Make(
      std::unique_ptr<Listener> listener, std::shared_ptr<const Tls> tls,
      Calls calls, StreamServer* streams);
  ~GrpcServer();

  // All the process's operations may use it.
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Awaits a call of method `index` of MethodTable: `tag` comes out of queue()
  // when it is there.
  void Expect(int index, grpc::ServerContext* context,
              grpc::ByteBuffer* request,
              grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer,
              void* tag);
  // As its metadata says; with TLS as its certificate proves. Refused as by
  // IdentifyCaller and ProveCaller.
  absl::StatusOr<Caller> CallerOf(const grpc::ServerContext& context) const;

  // Of whatever job: "worker/1"; empty: none that names anybody.
  std::string CertificateOf(const grpc::ServerContext& context) const;
  // Who has the operators' socket open: "uid 1000", "uid 0 or uid 1000".
  std::string OperatorUids() const;

  // A request of so many bytes has come by this call.
  void Received(const grpc::ServerContext& context, uint64_t bytes);

  // Adds what was refused at its port since it began.
  void FillStatus(v1::StatusReply* status) const;

  // What gRPC may hold of what it receives; no less than 256 MiB. Beyond that
  // it closes connections, any of them: it checks a message's length only when
  // it has all of it. So once a quarter of it belongs to no message, the
  // connection that sent most of that is closed, if that is more than its usual
  // calls can have.
  void LimitReceived(uint64_t bytes);
  // Closes the connections and cuts short what is not sent. Calls still come
  // out of the queue until none is left. Called once.
  void Shutdown();

 private:
  class RawService;
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  GrpcServer(std::unique_ptr<Listener> listener, std::shared_ptr<const Tls> tls,
             Calls calls);

  std::unique_ptr<RawService> service_;
  grpc::ResourceQuota received_{"received"};
  ConnectionQuota quota_;       // Of connections from other processes.
  const uint64_t usual_bytes_;  // Of one of them, under way.
  std::unique_ptr<Listener> listener_;
  const std::shared_ptr<const Tls> tls_;  // May be null.
  // Of connections from other processes, and of the operators' socket.
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<Acceptor> operators_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
};

// What a caller's metadata has under `key`; empty: nothing.
absl::string_view MetadataOf(const grpc::ServerContext& context,
                             const char* key);

}  // namespace paramd

#endif  // PARAMD_NET_GRPC_SERVER_H_
