#include "net/request_server.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpc/compression.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/byte_buffer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/caller.h"
#include "net/completion.h"
#include "net/grpc_status.h"
#include "net/payload_path.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// As many calls of one kind as a worker has under way, to one shard: no more
// than a server keeps of its pulls, and of any kind on a connection.
constexpr size_t kCallsOfAWorker = 64;
constexpr absl::Duration kLongestWait = absl::Seconds(60);
// A caller ends its call at its own deadline, with a better sentence.
constexpr absl::Duration kGrace = absl::Milliseconds(100);
// Who reads at all has taken an answer by then.
constexpr absl::Duration kReplyGrace = absl::Seconds(1);
// gRPC's own wall. What lies between it and a method's limit is refused with a
// sentence, and the connection stays.
constexpr int kMostReceiveBytes = 16 << 20;
// Below it gRPC would shrink the windows of a few workers' pushes.
constexpr uint64_t kLeastReceived = 256 << 20;
// Requests posted ahead, by method. The distribution's gRPC walks over all of
// them at every completion, so they are few.
constexpr int kAheadBulk = 8;
constexpr int kAheadControl = 2;

absl::Status CheckSize(const Method& method, size_t bytes) {
  if (bytes <= method.most_bytes()) return absl::OkStatus();
  return Refuse(v1::Refusal::OVER_LIMIT, method.name,
                absl::StrCat("a ", method.name, " request of ", bytes,
                             " bytes; the limit is ", method.most_bytes()));
}

// Empty: nothing.
absl::string_view SaidUnder(const char* key,
                            const grpc::ServerContext& context) {
  const auto said = context.client_metadata().find(key);
  if (said == context.client_metadata().end()) return "";
  return {said->second.data(), said->second.size()};
}

}  // namespace

// The methods of services.proto, with bytes in and bytes out.
class RequestServer::RawService : public grpc::Service {
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

// One request, from before it comes until its answer is sent.
class RequestServer::Request : public Completion {
 public:
  Request(RequestServer* server, int index)
      : index(index),
        method(MethodTable::Get().methods()[index]),
        server_(server) {
    ++server->requests_left_;
    context.AsyncNotifyWhenDone(static_cast<Completion*>(&end_));
    server->service_->Expect(index, &context, &bytes, &writer,
                             server->queue_.get(),
                             static_cast<Completion*>(this));
  }
  ~Request() override { --server_->requests_left_; }

  void Complete(bool ok) override {
    if (answered) {
      --server_->answers_under_way_;
      server_->pinned_bytes_ -= payload_bytes;
      server_->long_answers_.erase(answer);
      if (is_unread) server_->unread_.erase(unread);
      sent_ = true;
      DeleteIfOver();
    } else if (!ok) {  // The server is shutting down.
      delete this;
    } else {
      server_->Arrived(this);
    }
  }

  const int index;
  const Method& method;
  grpc::ServerContext context;
  grpc::ByteBuffer bytes;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer{&context};
  // Where the answer's payload may lie; null: in the message.
  std::shared_ptr<SharedMemory> memory;
  PeerId core;  // Who has it.
  // While it waits for its core: its id there, and for which shard and method.
  CallId id = 0;
  size_t waits_in = 0;
  Time deadline = Time::Never();
  bool answered = false;
  bool is_unread = false;
  std::list<Request*>::iterator unread;  // If so: its place.
  // From when its answer is being sent: its number, when that was, what of it
  // is by reference.
  uint64_t answer = 0;
  Time answered_at;
  uint64_t payload_bytes = 0;

 private:
  // The call is over: its caller has the answer, or has gone.
  class End : public Completion {
   public:
    explicit End(Request* request) : request_(request) {}
    void Complete(bool) override { request_->Ended(); }

   private:
    Request* const request_;
  };

  void Ended() {
    over_ = true;
    if (!answered) server_->Gone(this);
    DeleteIfOver();
  }
  void DeleteIfOver() {
    if (over_ && sent_) delete this;
  }

  RequestServer* const server_;
  End end_{this};
  bool sent_ = false;
  bool over_ = false;
};

absl::StatusOr<std::unique_ptr<RequestServer>> RequestServer::Make(
    std::unique_ptr<Listener> listener, const Identity* self, CoreHost* host,
    std::shared_ptr<const Tls> tls, std::function<void(absl::Status)> stop) {
  std::unique_ptr<RequestServer> made(
      new RequestServer(self, host, std::move(stop)));
  made->listener_ = std::move(listener);
  grpc::ServerBuilder builder;
  using Experimental = grpc::ServerBuilder::experimental_type;
  made->tls_ = std::move(tls);
  made->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD,
      made->tls_ == nullptr ? grpc::InsecureServerCredentials()
                            : made->tls_->ServerCredentials());
  made->operators_ = builder.experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(made->service_.get());
  made->streams_.AddTo(&builder);
  builder.SetResourceQuota(made->received_);
  builder.SetMaxReceiveMessageSize(kMostReceiveBytes);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(
      "grpc.max_concurrent_streams",
      static_cast<int>(kCallsOfAWorker * self->shards_per_server));
  builder.AddChannelArgument("grpc.per_message_compression", 0);
  // A message is inflated outside of every limit: 16 MiB may become 16 GB.
  builder.AddChannelArgument("grpc.per_message_decompression", 0);
  builder.AddChannelArgument("grpc.compression_enabled_algorithms_bitset",
                             1 << GRPC_COMPRESS_NONE);
  builder.AddChannelArgument("grpc.keepalive_time_ms", 30000);
  builder.AddChannelArgument("grpc.keepalive_timeout_ms", 20000);
  builder.AddChannelArgument("grpc.keepalive_permit_without_calls", 1);
  builder.AddChannelArgument("grpc.http2.max_pings_without_data", 0);
  builder.AddChannelArgument("grpc.http2.min_ping_interval_without_data_ms",
                             5000);
  made->queue_ = builder.AddCompletionQueue();
  made->server_ = builder.BuildAndStart();
  if (made->server_ == nullptr) {
    return absl::InternalError("gRPC does not start a server");
  }
  made->listener_->Start(
      // The thread ends while listener_ is being reset.
      [server = made.get(),
       listener = made->listener_.get()](int listening_fd, int fd) {
        Acceptor::NewConnectionParameters connection;
        connection.listener_fd = listening_fd;
        connection.fd = fd;
        const bool is_operator = listener->IsAdded(listening_fd);
        (is_operator ? server->operators_ : server->acceptor_)
            ->HandleNewConnection(&connection);
      });
  return made;
}

absl::Status RequestServer::ServeHealth(const std::string& address,
                                        bool anywhere,
                                        HealthServer::Post post) {
  ASSIGN_OR_RETURN(health_server_,
                   HealthServer::Listen(address, anywhere, &health_,
                                        std::move(post)));
  return absl::OkStatus();
}

void RequestServer::MakeRoomFor(uint32_t workers) {
  most_waiting_in_ = std::max(kLeastWaitingIn, kCallsOfAWorker * workers);
  most_unread_ = std::max(
      kLeastUnread, kCallsOfAWorker * workers * self_->shards_per_server);
}

void RequestServer::LimitReceived(uint64_t bytes) {
  received_.Resize(std::max(bytes, kLeastReceived));
}

RequestServer::RequestServer(const Identity* self, CoreHost* host,
                             std::function<void(absl::Status)> stop)
    : self_(self),
      process_(ProcessText(self->incarnation)),
      host_(host),
      stop_(std::move(stop)),
      service_(std::make_unique<RawService>()),
      health_([this] { return IsRestored(); }),
      reflection_({v1::MethodRules::descriptor()->file(),
                   grpc::health::v1::HealthCheckRequest::descriptor()->file()},
                  [this](const auto* service) { return IsServed(service); }),
      waiting_in_(self->shards_per_server *
                  MethodTable::Get().methods().size()) {
  health_.AddTo(&streams_);
  reflection_.AddTo(&streams_);
}

RequestServer::~RequestServer() {
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

void RequestServer::Start() {
  const auto& methods = MethodTable::Get().methods();
  for (size_t i = 0; i < methods.size(); ++i) {
    const int ahead = methods[i].bulk ? kAheadBulk : kAheadControl;
    for (int n = 0; n < ahead; ++n) Expect(static_cast<int>(i));
  }
  streams_.Start(queue_.get());
  if (health_server_ != nullptr) health_server_->Start();
}

void RequestServer::Expect(int method) {
  if (!shut_down_) new Request(this, method);
}

void RequestServer::Arrived(Request* request) {
  Expect(request->index);
  const absl::Status status = Take(request);
  if (status.ok()) return;
  CountRefusal(request->context.peer(), status);
  Answer(request, status, nullptr, {});
}

absl::StatusOr<Caller> RequestServer::CallerOf(const Request& request) const {
  const absl::string_view said = SaidUnder(kCallerKey, request.context);
  if (tls_ == nullptr) return IdentifyCaller(said, request.context.peer());
  const auto proof = request.context.auth_context();
  return ProveCaller(said,
                     {request.context.peer(), IsTls(*proof), UrisOf(*proof)},
                     tls_->self().job);
}

// OK if somebody answers, or has answered.
absl::Status RequestServer::Take(Request* request) {
  const Method& method = request->method;
  ASSIGN_OR_RETURN(const Caller caller, CallerOf(*request));
  // What is another process's is not looked at.
  RETURN_IF_ERROR(CheckMeant(SaidUnder(kIncarnationKey, request->context),
                             process_, caller, method));
  RETURN_IF_ERROR(refuse_all_);
  RETURN_IF_ERROR(CheckSize(method, request->bytes.Length()));
  RETURN_IF_ERROR(CheckAllowed(caller, method));
  ASSIGN_OR_RETURN(WireMessage message,
                   DecodeMessage(request->bytes, *method.request));
  RETURN_IF_ERROR(TakePayload(request, &message));
  if (method.served_by == PeerId::Kind::kOutside) {
    return TakeControl(request, caller, message);
  }
  return GiveToCore(request, caller, std::move(message));
}

// What lies in shared memory comes into the message as if it had been there.
absl::Status RequestServer::TakePayload(Request* request,
                                        WireMessage* message) {
  const size_t bytes = request->bytes.Length();
  request->bytes.Clear();
  const auto shared = TakeShared(message);
  if (!shared.has_value()) return absl::OkStatus();
  if (memories_ != nullptr) request->memory = memories_->Find(shared->memory());
  RETURN_IF_ERROR(TakeSharedPayload(*shared, request->memory.get(), message));
  if (shared->pieces().empty()) return absl::OkStatus();
  return CheckSize(request->method, bytes + ChainSize(message->payload));
}

absl::Status RequestServer::TakeControl(Request* request, const Caller& caller,
                                        const WireMessage& message) {
  const auto* type = message.head->GetDescriptor();
  if (type == v1::HelloRequest::descriptor()) {
    const auto& hello = static_cast<const v1::HelloRequest&>(*message.head);
    RETURN_IF_ERROR(CheckHello(*self_, hello));
    RETURN_IF_ERROR(CheckHelloOf(caller, hello));
    const v1::HelloReply reply = AnswerHello(*self_);
    Answer(request, absl::OkStatus(), &reply, {});
  } else if (type == v1::StatusRequest::descriptor()) {
    v1::StatusReply reply;
    *reply.mutable_task() = self_->task;
    reply.set_incarnation(self_->incarnation);
    host_->FillStatus(&reply);
    Answer(request, absl::OkStatus(), &reply, {});
  } else if (type == v1::StopRequest::descriptor()) {
    const auto& stop = static_cast<const v1::StopRequest&>(*message.head);
    const v1::StopReply reply;
    Answer(request, absl::OkStatus(), &reply, {});
    stop_(absl::CancelledError(absl::StrCat(
        "stopped by an operator at ", caller.address, ": ", stop.reason())));
  } else {
    return absl::UnimplementedError(
        absl::StrCat(request->method.path, " is not served"));
  }
  return absl::OkStatus();
}

absl::Status RequestServer::GiveToCore(Request* request, const Caller& caller,
                                       WireMessage message) {
  const Method& method = request->method;
  ASSIGN_OR_RETURN(const uint32_t shard, ShardOf(*request));
  const PeerId core = CoreOf(method, shard);
  if (!host_->Serves(core)) {
    return absl::UnimplementedError(absl::StrCat(
        method.name, " is served by ", PeerName(core), "; this is ",
        PeerName(self_->task.type() == v1::PS
                     ? FirstServer()
                     : PeerId::Worker(self_->task.index()))));
  }
  const size_t methods = MethodTable::Get().methods().size();
  request->waits_in = shard * methods + static_cast<size_t>(request->index);
  if (waiting_in_[request->waits_in] >= most_waiting_in_) {
    return RefuseForNow(v1::Refusal::OVER_LIMIT, PeerName(core),
                        absl::Milliseconds(100),
                        absl::StrCat(most_waiting_in_, " calls of ",
                                     method.name, " wait for ",
                                     PeerName(core)));
  }
  const absl::Duration patience = absl::FromChrono(
      request->context.deadline() - std::chrono::system_clock::now());
  request->deadline =
      MonotonicNow() + std::min(patience + kGrace, kLongestWait);
  request->core = core;
  const CallId id = host_->Request(caller.task, core, std::move(message.head),
                                   std::move(message.payload));
  request->id = id;
  waiting_[id] = request;
  ++waiting_in_[request->waits_in];
  deadlines_.insert({request->deadline, id});
  return absl::OkStatus();
}

void RequestServer::Reply(Outbox::ReplyItem item) {
  const auto it = waiting_.find(item.call);
  if (it == waiting_.end()) return;
  Request* const request = it->second;
  Forget(request);
  Answer(request, item.status, item.head.get(), item.payload);
}

void RequestServer::Forget(Request* request) {
  deadlines_.erase({request->deadline, request->id});
  waiting_.erase(request->id);
  --waiting_in_[request->waits_in];
}

void RequestServer::Gone(Request* request) {
  host_->Expired(request->core, request->id);
  Forget(request);
  Answer(request, absl::CancelledError("its caller has gone"), nullptr, {});
}

void RequestServer::Answer(Request* request, const absl::Status& status,
                           const google::protobuf::Message* head,
                           const BufferChain& payload) {
  request->answered = true;
  request->answer = ++next_answer_;
  request->answered_at = MonotonicNow();
  request->unread = unread_.insert(unread_.end(), request);
  request->is_unread = true;
  ++answers_under_way_;
  void* const tag = static_cast<Completion*>(request);
  if (!status.ok()) {
    request->writer.FinishWithError(ToGrpcStatus(status), tag);
    return;
  }
  const Method& method = request->method;
  const OutgoingMessage message =
      EncodeReply(method, *head, payload, request->memory.get());
  if (message.size > method.most_bytes()) {
    const absl::Status refusal = Refuse(
        v1::Refusal::OVER_LIMIT, method.name,
        absl::StrCat("the answer to ", method.name, " has ", message.size,
                     " bytes; the limit is ", method.most_bytes()));
    CountRefusal(request->context.peer(), refusal);
    request->writer.FinishWithError(ToGrpcStatus(refusal), tag);
    return;
  }
  // A payload in shared memory is not in it.
  if (message.bytes.Length() >= kByReferenceBytes) {
    request->payload_bytes = message.bytes.Length();
    pinned_bytes_ += request->payload_bytes;
    long_answers_[request->answer] = request;
  }
  request->writer.Finish(message.bytes, grpc::Status::OK, tag);
}

void RequestServer::CancelOldestReply(Time now) {
  if (long_answers_.empty()) return;
  Request* const oldest = long_answers_.begin()->second;
  if (now - oldest->answered_at < kReplyGrace) return;
  // Its completion comes, and with it the end of the request.
  long_answers_.erase(long_answers_.begin());
  const std::string peer = oldest->context.peer();
  oldest->context.TryCancel();
  if (++given_up_; (given_up_ & (given_up_ - 1)) != 0) return;
  Log(LogLevel::kWarning, "answer given up: its caller does not read it",
      {{"caller", IdentifyCaller("", peer)->address},
       {"times", given_up_},
       {"bytes", oldest->payload_bytes},
       {"pinned", pinned_bytes_}});
}

void RequestServer::Expire(Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const CallId id = deadlines_.begin()->second;
    host_->Expired(waiting_.at(id)->core, id);
    Reply({id,
           absl::DeadlineExceededError("no answer within the deadline"),
           nullptr,
           {}});
  }
  CutUnread(now);
  streams_.Expire(now);
  if (health_server_ != nullptr) health_server_->Expire(now);
  health_.Tick(now);
}

// With how long an answer that is not read yet.
absl::Duration RequestServer::Patience() const {
  return unread_.size() > most_unread_ ? kReplyGrace : longest_unread_;
}

// Its completion comes, and with it the end of the request.
void RequestServer::CutUnread(Time now) {
  while (!unread_.empty()) {
    Request* const oldest = unread_.front();
    if (now - oldest->answered_at < Patience()) return;
    unread_.pop_front();
    oldest->is_unread = false;
    const std::string peer = oldest->context.peer();
    oldest->context.TryCancel();
    if (++cut_; (cut_ & (cut_ - 1)) != 0) continue;
    Log(LogLevel::kWarning, "call cut: its caller does not take the answer",
        {{"caller", IdentifyCaller("", peer)->address}, {"times", cut_}});
  }
}

Time RequestServer::next_deadline() const {
  const Time wait =
      deadlines_.empty() ? Time::Never() : deadlines_.begin()->first;
  const Time unread = unread_.empty()
                          ? Time::Never()
                          : unread_.front()->answered_at + Patience();
  const Time answer = std::min(wait, unread);
  const Time probe = health_server_ == nullptr
                         ? Time::Never()
                         : health_server_->next_deadline();
  return std::min(
      {answer, streams_.next_deadline(), probe, health_.next_tick()});
}

void RequestServer::RefuseAll(const absl::Status& status) {
  refuse_all_ = status;
  while (!deadlines_.empty()) {
    Reply({deadlines_.begin()->second, status, nullptr, {}});
  }
  streams_.RefuseAll(status);
  if (health_server_ != nullptr) health_server_->RefuseAll(status);
}

void RequestServer::Shutdown() {
  if (shut_down_) return;
  shut_down_ = true;
  if (health_server_ != nullptr) health_server_->Shutdown();
  listener_.reset();
  streams_.Stop();
  server_->Shutdown(std::chrono::system_clock::now());
}

PeerId RequestServer::FirstServer() const {
  return PeerId::Ps(self_->task.index() * self_->shards_per_server);
}

PeerId RequestServer::CoreOf(const Method& method, uint32_t shard) const {
  const bool is_ps = method.served_by == PeerId::Kind::kPs;
  return {method.served_by, is_ps ? FirstServer().index + shard : 0};
}

// Zero where there is one.
absl::StatusOr<uint32_t> RequestServer::ShardOf(const Request& request) const {
  const absl::string_view said = SaidUnder(kShardKey, request.context);
  uint32_t shard = 0;
  if (said.empty() || (absl::SimpleAtoi(said, &shard) &&
                       shard < self_->shards_per_server)) {
    return shard;
  }
  return Refuse(v1::Refusal::INVALID, kShardKey,
                absl::StrCat(kShardKey, " is '", said.substr(0, 64),
                             "'; a server has ", self_->shards_per_server,
                             " shards, numbered from 0"));
}

// What nobody but the streams knows is served everywhere.
bool RequestServer::IsServed(
    const google::protobuf::ServiceDescriptor* service) const {
  const std::string prefix = absl::StrCat("/", service->full_name(), "/");
  for (const Method& method : MethodTable::Get().methods()) {
    if (!absl::StartsWith(method.path, prefix)) continue;
    return method.served_by == PeerId::Kind::kOutside ||
           host_->Serves(CoreOf(method, /*shard=*/0));
  }
  return true;
}

// A process that is no server has nothing to restore.
bool RequestServer::IsRestored() const {
  if (self_->task.type() != v1::PS) return true;
  v1::StatusReply status;
  host_->FillStatus(&status);
  return status.server().restored();
}

// What somebody should look at is logged the 1st, 2nd, 4th, 8th … time.
void RequestServer::CountRefusal(const std::string& peer,
                                 const absl::Status& status) {
  const v1::Refusal::Reason reason = RefusalOf(status).reason();
  uint64_t* times = nullptr;
  const char* what = "";
  if (IsForAnotherProcess(status)) {
    times = &for_others_;
    what = "call for another process refused";
  } else if (reason == v1::Refusal::OTHER_JOB ||
             reason == v1::Refusal::PROTOCOL ||
             RefusalOf(status).entity() == "certificate") {
    times = &strangers_;
    what = "stranger refused";
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    times = &over_limit_;
    what = "request over a limit";
  }
  if (times == nullptr) return;
  ++*times;
  if ((*times & (*times - 1)) != 0) return;
  Log(LogLevel::kWarning, what,
      {{"caller", IdentifyCaller("", peer)->address},
       {"times", *times},
       {"what", status.message()}});
}

}  // namespace paramd
