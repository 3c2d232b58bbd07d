#include "net/grpc_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpc/compression.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/security/server_credentials.h"

#include "net/method_table.h"

namespace paramd {
namespace {

// gRPC's own wall. What lies between it and a method's limit is refused with a
// sentence, and the connection stays.
constexpr int kMostReceiveBytes = 16 << 20;
// Below it gRPC would shrink the windows of a few workers' pushes.
constexpr uint64_t kLeastReceived = 256 << 20;
// Of what may be received, what may belong to no message: from four fifths on
// gRPC shrinks windows and reads, and between two looks strangers on the same
// machine have sent 80 MB.
constexpr uint64_t kPartUnfinished = 4;
// Of one key and its value, as HTTP/2 counts them (RFC 7541, 4.1).
constexpr uint64_t kBesideMetadata = 32;

void SetChannelArguments(int calls, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument("grpc.max_concurrent_streams", calls);
  builder->AddChannelArgument("grpc.per_message_compression", 0);
  // A message is inflated outside of every limit: 16 MiB may become 16 GB.
  builder->AddChannelArgument("grpc.per_message_decompression", 0);
  builder->AddChannelArgument("grpc.compression_enabled_algorithms_bitset",
                              1 << GRPC_COMPRESS_NONE);
  // Whoever connects and says nothing has a place that members wait for.
  builder->AddChannelArgument("grpc.server_handshake_timeout_ms", 20000);
  builder->AddChannelArgument("grpc.keepalive_time_ms", 30000);
  builder->AddChannelArgument("grpc.keepalive_timeout_ms", 20000);
  builder->AddChannelArgument("grpc.keepalive_permit_without_calls", 1);
  builder->AddChannelArgument("grpc.http2.max_pings_without_data", 0);
  builder->AddChannelArgument("grpc.http2.min_ping_interval_without_data_ms",
                              5000);
}

}  // namespace

// The methods of services.proto, with bytes in and bytes out.
class GrpcServer::RawService : public grpc::Service {
 public:
  RawService() {
    int index = 0;
    for (const Method& method : MethodTable::Get().methods()) {
      AddMethod(new grpc::internal::RpcServiceMethod(
          method.path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC,
          /*handler=*/nullptr));
      MarkMethodRaw(index++);
    }
  }

  void Expect(int index, grpc::ServerContext* context,
              grpc::ByteBuffer* request,
              grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer,
              grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncUnary(index, context, request, writer, queue, queue, tag);
  }
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Make(
    std::unique_ptr<Listener> listener, std::shared_ptr<const Tls> tls,
    Calls calls, StreamServer* streams) {
  std::unique_ptr<GrpcServer> made(
      new GrpcServer(std::move(listener), std::move(tls), calls));
  grpc::ServerBuilder builder;
  using Experimental = grpc::ServerBuilder::experimental_type;
  made->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD,
      made->tls_ == nullptr ? grpc::InsecureServerCredentials()
                            : made->tls_->ServerCredentials());
  made->operators_ = builder.experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(made->service_.get());
  streams->AddTo(&builder);
  builder.SetResourceQuota(made->received_);
  builder.SetMaxReceiveMessageSize(kMostReceiveBytes);
  builder.SetMaxSendMessageSize(-1);
  SetChannelArguments(calls.most, &builder);
  made->queue_ = builder.AddCompletionQueue();
  made->server_ = builder.BuildAndStart();
  if (made->server_ == nullptr) {
    return absl::InternalError("gRPC does not start a server");
  }
  made->listener_->Watch([quota = &made->quota_] { return quota->Look(); });
  made->listener_->Start(
      // The thread ends while listener_ is being reset.
      [server = made.get(), listener = made->listener_.get()](int listening_fd,
                                                              int fd) {
        Acceptor::NewConnectionParameters connection;
        connection.listener_fd = listening_fd;
        connection.fd = fd;
        const bool is_operator = listener->IsAdded(listening_fd);
        if (!is_operator) server->quota_.Opened(fd);
        (is_operator ? server->operators_ : server->acceptor_)
            ->HandleNewConnection(&connection);
      });
  return made;
}

GrpcServer::GrpcServer(std::unique_ptr<Listener> listener,
                       std::shared_ptr<const Tls> tls, Calls calls)
    : service_(std::make_unique<RawService>()),
      quota_(static_cast<uint64_t>(calls.most) * kMostBulkBytes),
      usual_bytes_(static_cast<uint64_t>(calls.usual) * kMostBulkBytes),
      listener_(std::move(listener)),
      tls_(std::move(tls)) {}

GrpcServer::~GrpcServer() {
  listener_.reset();
  if (server_ == nullptr && queue_ != nullptr) {
    // It was not started: the queue is empty.
    queue_->Shutdown();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) {
    }
  }
}

void GrpcServer::Expect(
    int index, grpc::ServerContext* context, grpc::ByteBuffer* request,
    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer, void* tag) {
  service_->Expect(index, context, request, writer, queue_.get(), tag);
}

absl::StatusOr<Caller> GrpcServer::CallerOf(
    const grpc::ServerContext& context) const {
  const absl::string_view said = MetadataOf(context, kCallerKey);
  if (tls_ == nullptr) return IdentifyCaller(said, context.peer());
  const auto proof = context.auth_context();
  return ProveCaller(said, {context.peer(), IsTls(*proof), UrisOf(*proof)},
                     tls_->self().job);
}

std::string GrpcServer::CertificateOf(
    const grpc::ServerContext& context) const {
  if (tls_ == nullptr) return "";
  const auto name = NameAmong(UrisOf(*context.auth_context()));
  return name.ok() ? name->RoleAndIndex() : "";
}

// That of this process's owner, unless root has it open.
std::string GrpcServer::OperatorUids() const {
  if (listener_ == nullptr) return "";
  return absl::StrJoin(
      listener_->UsersOfAdded(), " or ",
      [](std::string* out, uid_t uid) { absl::StrAppend(out, "uid ", uid); });
}

void GrpcServer::Received(const grpc::ServerContext& context, uint64_t bytes) {
  uint64_t metadata = 0;
  for (const auto& [key, value] : context.client_metadata()) {
    metadata += key.size() + value.size() + kBesideMetadata;
  }
  quota_.Finished(context.peer(), bytes, metadata);
}

void GrpcServer::FillStatus(v1::StatusReply* status) const {
  if (listener_ == nullptr) return;
  v1::RefusedConnections* const refused = status->add_refused_connections();
  refused->set_port("calls");
  refused->set_over_limit(listener_->closed_at_once());
  refused->set_unfinished(quota_.closed());
}

void GrpcServer::LimitReceived(uint64_t bytes) {
  const uint64_t most = std::max(bytes, kLeastReceived);
  received_.Resize(most);
  quota_.LimitTogether(most / kPartUnfinished, usual_bytes_);
}

void GrpcServer::Shutdown() {
  listener_.reset();
  server_->Shutdown(std::chrono::system_clock::now());
}

absl::string_view MetadataOf(const grpc::ServerContext& context,
                             const char* key) {
  const auto said = context.client_metadata().find(key);
  if (said == context.client_metadata().end()) return "";
  return {said->second.data(), said->second.size()};
}

}  // namespace paramd
