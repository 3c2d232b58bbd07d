#include "net/request_server.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/byte_buffer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/caller.h"
#include "net/completion.h"
#include "net/grpc_status.h"
#include "net/traced_core.h"
#include "proto/paramd/v1/membership.pb.h"
#include "proto/paramd/v1/stage.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// As many calls of one kind as a worker has under way, to one shard: no more
// than a server keeps of its pulls, and of any kind on a connection.
constexpr size_t kCallsOfAWorker = 64;
// With the largest requests a session has four under way to a shard. A stage
// gets no more bytes than 16 have: from each of eight lanes eight pieces of a
// MiB.
constexpr int kUsualCalls = 4;
constexpr int kUsualCallsOfAStage = 16;
constexpr absl::Duration kLongestWait = absl::Seconds(60);
// A caller ends its call at its own deadline, with a better sentence.
constexpr absl::Duration kAnswerGrace = absl::Milliseconds(100);
// A shard that has ended, for its process ends soon.
constexpr absl::Duration kEndedRetry = absl::Milliseconds(50);
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

GrpcServer::Calls CallsOfAConnection(const Identity& self) {
  const auto shards = static_cast<int>(self.shards_per_server);
  const bool is_stage = self.task.type() == v1::STAGE;
  return {static_cast<int>(kCallsOfAWorker) * shards,
          is_stage ? kUsualCallsOfAStage : kUsualCalls * shards};
}

PeerId FirstServer(const Identity& self) {
  return PeerId::Ps(self.task.index() * self.shards_per_server);
}

// Which core of this process serves the method.
PeerId CoreOf(const Identity& self, const Method& method, uint32_t shard) {
  switch (method.served_by) {
    case PeerId::Kind::kPs:
      return PeerId::Ps(FirstServer(self).index + shard);
    case PeerId::Kind::kStage:
      return PeerId::Stage(self.task.index());
    default:
      return {method.served_by, 0};
  }
}

// Zero where there is one.
absl::StatusOr<uint32_t> ShardOf(const Identity& self,
                                 const grpc::ServerContext& context) {
  const absl::string_view said = MetadataOf(context, kShardKey);
  uint32_t shard = 0;
  if (said.empty() ||
      (absl::SimpleAtoi(said, &shard) && shard < self.shards_per_server)) {
    return shard;
  }
  return Refuse(
      v1::Refusal::INVALID, kShardKey,
      absl::StrCat(kShardKey, " is '", said.substr(0, 64), "'; a server has ",
                   self.shards_per_server, " shards, numbered from 0"));
}

// From when it had come until it was decoded.
void RecordReceived(const Method& method, Time came,
                    const google::protobuf::Message& head, ChromeTrace* trace) {
  ChromeTrace::Event event;
  event.lane = ChromeTrace::Lane::kCalls;
  event.name = method.name.c_str();
  event.begin = came;
  event.end = MonotonicNow();
  const absl::optional<TracedPush> push = TracedPushOf(head);
  if (push.has_value()) AddChunk(*push, ChromeTrace::Phase::kStep, &event);
  trace->AddRecorded(std::move(event));
}

}  // namespace

// One request, from before it comes until its answer is sent.
class RequestServer::Request : public Completion {
 public:
  Request(RequestServer* server, int index)
      : index(index),
        method(MethodTable::Get().methods()[index]),
        server_(server) {
    ++server->requests_left_;
    context.AsyncNotifyWhenDone(static_cast<Completion*>(&end_));
    server->grpc_->Expect(index, &context, &bytes, &writer,
                          static_cast<Completion*>(this));
  }
  ~Request() override { --server_->requests_left_; }

  void Complete(bool ok) override {
    if (answered) {
      server_->answers_.Ended(answer);
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
  Time came;
  PeerId core;  // Who has it.
  // While it waits for its core: its id there, and for which shard and method.
  CallId id = 0;
  size_t waits_in = 0;
  Time deadline = Time::Never();
  bool answered = false;
  uint64_t answer = 0;          // If so: its number.
  uint64_t operators_call = 0;  // Of an operator: its number.

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
    std::shared_ptr<const Tls> tls, std::function<void(absl::Status)> stop,
    ProcessCalls calls, std::shared_ptr<OperatorCalls> operators) {
  std::unique_ptr<RequestServer> made(new RequestServer(
      self, host, std::move(stop), std::move(calls), std::move(operators)));
  ASSIGN_OR_RETURN(
      made->grpc_,
      GrpcServer::Make(std::move(listener), std::move(tls),
                       CallsOfAConnection(*self), &made->streams_));
  return made;
}

absl::Status RequestServer::ServeHealth(const std::string& address,
                                        bool anywhere,
                                        HealthServer::Post post) {
  ASSIGN_OR_RETURN(
      health_server_,
      HealthServer::Listen(address, anywhere, &health_, std::move(post)));
  return absl::OkStatus();
}

void RequestServer::MakeRoomFor(uint32_t workers) {
  most_waiting_in_ = std::max(kLeastWaitingIn, kCallsOfAWorker * workers);
  answers_.MakeRoomFor(kCallsOfAWorker * workers * self_->shards_per_server);
}

RequestServer::RequestServer(const Identity* self, CoreHost* host,
                             std::function<void(absl::Status)> stop,
                             ProcessCalls calls,
                             std::shared_ptr<OperatorCalls> operators)
    : self_(self),
      process_(ProcessText(self->incarnation)),
      host_(host),
      stop_(std::move(stop)),
      process_calls_(std::move(calls)),
      operators_(operators != nullptr ? std::move(operators)
                                      : std::make_shared<OperatorCalls>()),
      health_([this] { return IsRestored(); }),
      reflection_({v1::MethodRules::descriptor()->file(),
                   v1::BeatRequest::descriptor()->file(),
                   v1::ComputeStageRequest::descriptor()->file(),
                   grpc::health::v1::HealthCheckRequest::descriptor()->file()},
                  [this](const auto* service) { return IsServed(service); }),
      waiting_in_(self->shards_per_server *
                  MethodTable::Get().methods().size()) {
  health_.AddTo(&streams_);
  reflection_.AddTo(&streams_);
}

void RequestServer::Start() {
  const auto& methods = MethodTable::Get().methods();
  for (size_t i = 0; i < methods.size(); ++i) {
    const int ahead = methods[i].bulk ? kAheadBulk : kAheadControl;
    for (int n = 0; n < ahead; ++n) Expect(static_cast<int>(i));
  }
  streams_.Start(grpc_->queue());
  if (health_server_ != nullptr) health_server_->Start();
}

void RequestServer::Expect(int method) {
  if (!shut_down_) new Request(this, method);
}

void RequestServer::Arrived(Request* request) {
  grpc_->Received(request->context, request->bytes.Length());
  request->came = MonotonicNow();
  counts_.Received(request->index, request->bytes.Length());
  Expect(request->index);
  const absl::Status status = Take(request);
  if (status.ok()) return;
  refused_.Count(request->context.peer(), status);
  Answer(request, status, nullptr, {});
}

// OK if somebody answers, or has answered.
absl::Status RequestServer::Take(Request* request) {
  const Method& method = request->method;
  ASSIGN_OR_RETURN(const Caller caller, CallerOf(request));
  // What is another process's is not looked at.
  RETURN_IF_ERROR(CheckMeant(MetadataOf(request->context, kIncarnationKey),
                             process_, caller, method));
  RETURN_IF_ERROR(refuse_all_);
  RETURN_IF_ERROR(CheckSize(method, request->bytes.Length()));
  RETURN_IF_ERROR(CheckMayCall(caller, method));
  ASSIGN_OR_RETURN(WireMessage message,
                   DecodeMessage(request->bytes, *method.request));
  TellOfOperator(caller, request, message.head.get());
  RETURN_IF_ERROR(TakePayload(request, &message));
  if (trace_ != nullptr && trace_->is_recording()) {
    RecordReceived(method, request->came, *message.head, trace_);
  }
  if (method.served_by == PeerId::Kind::kOutside) {
    return TakeControl(request, caller, message);
  }
  return GiveToCore(request, caller, std::move(message));
}

// Who is not who it says tries to be somebody.
absl::StatusOr<Caller> RequestServer::CallerOf(Request* request) {
  auto caller = grpc_->CallerOf(request->context);
  if (caller.ok() || !OperatorCalls::AreFor(request->method)) return caller;
  ASSIGN_OR_RETURN(Caller unknown, IdentifyCaller("", request->context.peer()));
  unknown.name = grpc_->CertificateOf(request->context);
  operators_->Attempted(OriginOf(unknown), request->method, caller.status());
  return caller;
}

// Attempts can be found again, as what operators do.
absl::Status RequestServer::CheckMayCall(const Caller& caller,
                                         const Method& method) {
  const absl::Status may = CheckAllowed(caller, method);
  if (!may.ok() && OperatorCalls::AreFor(method)) {
    operators_->Attempted(OriginOf(caller), method, may);
  }
  return may;
}

v1::Origin RequestServer::OriginOf(const Caller& caller) const {
  return OperatorCalls::OriginOf(caller, grpc_->OperatorUids());
}

void RequestServer::TellOfOperator(const Caller& caller, Request* request,
                                   google::protobuf::Message* head) {
  if (!OperatorCalls::AreFor(request->method)) return;
  const v1::Origin origin = OriginOf(caller);
  SetOrigin(origin, head);
  request->operators_call = operators_->Came(origin, request->method, *head);
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
  const size_t shared_bytes = ChainSize(message->payload);
  counts_.Received(request->index, shared_bytes);
  return CheckSize(request->method, bytes + shared_bytes);
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
    FillStatus(&reply);
    Answer(request, absl::OkStatus(), &reply, {});
  } else if (type == v1::StopRequest::descriptor()) {
    const auto& stop = static_cast<const v1::StopRequest&>(*message.head);
    const v1::StopReply reply;
    Answer(request, absl::OkStatus(), &reply, {});
    stop_(absl::CancelledError(absl::StrCat(
        "stopped by an operator at ", caller.address, ": ", stop.reason())));
  } else if (process_calls_ != nullptr) {
    ASSIGN_OR_RETURN(const ProcessAnswer answer, process_calls_(*message.head));
    Answer(request, absl::OkStatus(), answer.head.get(), answer.payload);
  } else {
    return absl::UnimplementedError(
        absl::StrCat(request->method.path, " is not served"));
  }
  return absl::OkStatus();
}

absl::Status RequestServer::GiveToCore(Request* request, const Caller& caller,
                                       WireMessage message) {
  const Method& method = request->method;
  ASSIGN_OR_RETURN(const uint32_t shard, ShardOf(*self_, request->context));
  const PeerId core = CoreOf(*self_, method, shard);
  const bool is_own_shard =
      core.kind == PeerId::Kind::kPs && self_->task.type() == v1::PS;
  if (!host_->Serves(core) && is_own_shard) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, PeerName(core), kEndedRetry,
        absl::StrCat(PeerName(core),
                     " has ended; the others of its process have not yet"));
  }
  if (!host_->Serves(core)) {
    return absl::UnimplementedError(absl::StrCat(
        method.name, " is served by ", PeerName(core), "; this is ",
        PeerName(self_->task.type() == v1::PS ? FirstServer(*self_)
                 : self_->task.type() == v1::STAGE
                     ? PeerId::Stage(self_->task.index())
                     : PeerId::Worker(self_->task.index()))));
  }
  const size_t methods = MethodTable::Get().methods().size();
  request->waits_in = shard * methods + static_cast<size_t>(request->index);
  if (waiting_in_[request->waits_in] >= most_waiting_in_) {
    return RefuseForNow(
        v1::Refusal::OVER_LIMIT, PeerName(core), absl::Milliseconds(100),
        absl::StrCat(most_waiting_in_, " calls of ", method.name, " wait for ",
                     PeerName(core)));
  }
  const absl::Duration patience = absl::FromChrono(
      request->context.deadline() - std::chrono::system_clock::now());
  request->deadline =
      MonotonicNow() + std::min(patience + kAnswerGrace, kLongestWait);
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
  const Time now = MonotonicNow();
  request->answered = true;
  request->answer = answers_.Begin(&request->context, now);
  void* const tag = static_cast<Completion*>(request);
  const absl::Duration took = now - request->came;
  if (!status.ok()) {
    counts_.Answered(request->index, /*is_refused=*/true, took);
    if (request->operators_call != 0) {
      operators_->Refused(request->operators_call, status);
    }
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
    refused_.Count(request->context.peer(), refusal);
    counts_.Answered(request->index, /*is_refused=*/true, took);
    request->writer.FinishWithError(ToGrpcStatus(refusal), tag);
    return;
  }
  counts_.Answered(request->index, /*is_refused=*/false, took);
  counts_.Sent(request->index, message.size);
  // A payload in shared memory is not in it.
  if (message.bytes.Length() >= kByReferenceBytes) {
    answers_.Pin(request->answer, message.bytes.Length());
  }
  request->writer.Finish(message.bytes, grpc::Status::OK, tag);
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
  answers_.CutUnread(now);
  streams_.Expire(now);
  if (health_server_ != nullptr) health_server_->Expire(now);
  health_.Tick(now);
}

Time RequestServer::next_deadline() const {
  const Time wait =
      deadlines_.empty() ? Time::Never() : deadlines_.begin()->first;
  const Time probe = health_server_ == nullptr
                         ? Time::Never()
                         : health_server_->next_deadline();
  return std::min({wait, answers_.next_deadline(), streams_.next_deadline(),
                   probe, health_.next_tick()});
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
  streams_.Stop();
  grpc_->Shutdown();
}

void RequestServer::FillStatus(v1::StatusReply* status) const {
  host_->FillStatus(status);
  counts_.Fill(status);
  if (grpc_ != nullptr) grpc_->FillStatus(status);
  if (health_server_ != nullptr) health_server_->FillStatus(status);
}

// What nobody but the streams knows is served everywhere.
bool RequestServer::IsServed(
    const google::protobuf::ServiceDescriptor* service) const {
  const std::string prefix = absl::StrCat("/", service->full_name(), "/");
  for (const Method& method : MethodTable::Get().methods()) {
    if (!absl::StartsWith(method.path, prefix)) continue;
    return method.served_by == PeerId::Kind::kOutside ||
           host_->Serves(CoreOf(*self_, method, /*shard=*/0));
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

}  // namespace paramd
