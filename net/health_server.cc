#include "net/health_server.h"

#include <chrono>

#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpc/support/time.h"
#include "grpcpp/impl/codegen/completion_queue_tag.h"
#include "grpcpp/security/server_credentials.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "net/completion.h"
#include "net/listen_address.h"

namespace paramd {
namespace {

constexpr size_t kMostConnections = 64;
constexpr int kMostHealthBytes = 4 << 10;
constexpr uint64_t kMostReceived = 16 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Listen(
    const std::string& address, bool anywhere, Health* health, Post post) {
  if (!anywhere) RETURN_IF_ERROR(CheckListenAddress(address));
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                   Listener::Bind(address, anywhere, kMostConnections));
  std::unique_ptr<HealthServer> made(
      new HealthServer(std::move(listener), std::move(post)));
  health->AddTo(&made->streams_);
  grpc::ServerBuilder builder;
  using Experimental = grpc::ServerBuilder::experimental_type;
  made->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  made->streams_.AddTo(&builder);
  made->received_.Resize(kMostReceived);
  builder.SetResourceQuota(made->received_);
  builder.SetMaxReceiveMessageSize(kMostHealthBytes);
  builder.AddChannelArgument("grpc.server_handshake_timeout_ms", 20000);
  builder.AddChannelArgument("grpc.max_concurrent_streams", 16);
  builder.AddChannelArgument("grpc.per_message_decompression", 0);
  builder.AddChannelArgument("grpc.compression_enabled_algorithms_bitset",
                             1 << GRPC_COMPRESS_NONE);
  made->queue_ = builder.AddCompletionQueue();
  made->server_ = builder.BuildAndStart();
  if (made->server_ == nullptr) {
    return absl::InternalError("gRPC does not start a server for health");
  }
  return made;
}

HealthServer::~HealthServer() {
  CHECK(!thread_.joinable(), "a health server is shut down before it goes");
  listener_.reset();
  if (queue_ == nullptr) return;
  queue_->Shutdown();
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) {
  }
}

void HealthServer::Start() {
  streams_.Start(queue_.get());
  thread_ = std::thread([this] { WaitForEvents(); });
  listener_->Start([acceptor = acceptor_.get()](int listening_fd, int fd) {
    Acceptor::NewConnectionParameters connection;
    connection.listener_fd = listening_fd;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  });
}

// Not queue_->Next(), which would also finish the operation, whose object is
// the loop's, here.
void HealthServer::WaitForEvents() {
  while (true) {
    const grpc_event event = grpc_completion_queue_next(
        queue_->cq(), gpr_inf_future(GPR_CLOCK_MONOTONIC), nullptr);
    if (event.type != GRPC_OP_COMPLETE) return;  // It was shut down.
    {
      const MutexLock lock(&mutex_);
      events_.emplace_back(event.tag, event.success != 0);
      came_.NotifyAll();
    }
    post_([this] { Complete(); });
  }
}

void HealthServer::Complete() {
  std::vector<std::pair<void*, bool>> events;
  {
    const MutexLock lock(&mutex_);
    events.swap(events_);
  }
  for (auto& [operation, ok] : events) {
    void* tag = nullptr;
    if (static_cast<grpc::internal::CompletionQueueTag*>(operation)
            ->FinalizeResult(&tag, &ok)) {
      static_cast<Completion*>(tag)->Complete(ok);
    }
  }
}

void HealthServer::FillStatus(v1::StatusReply* status) const {
  if (listener_ == nullptr) return;
  v1::RefusedConnections* const refused = status->add_refused_connections();
  refused->set_port("health");
  refused->set_over_limit(listener_->closed_at_once());
}

void HealthServer::Shutdown() {
  if (!thread_.joinable()) return;
  listener_.reset();
  streams_.Stop();
  server_->Shutdown(std::chrono::system_clock::now());
  // Nothing may be started on a queue that is shut down.
  while (streams_.calls_left() > 0) {
    {
      MutexLock lock(&mutex_);
      while (events_.empty()) came_.Wait(&mutex_);
    }
    Complete();
  }
  queue_->Shutdown();
  thread_.join();
}

}  // namespace paramd
