#include "net/peer_link.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpc/compression.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/channel_arguments.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/caller.h"
#include "net/completion.h"
#include "net/grpc_status.h"
#include "net/unreached.h"
#include "net/wire_message.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr size_t kMostWaiting = 1024;
constexpr char kAnotherProcess[] = "another process answers";
// The one before it may still be there, where nobody hears it.
constexpr char kReplaced[] = "silent; another process answers by now";
// How often a name is looked up, at most.
constexpr absl::Duration kLookUp = absl::Seconds(1);

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials, bool bulk) {
  grpc::ChannelArguments args;
  // A connection of its own for each channel, instead of one per address.
  args.SetInt("grpc.use_local_subchannel_pool", 1);
  args.SetInt("grpc.enable_retries", 0);
  args.SetInt("grpc.enable_http_proxy", 0);
  // CoreHost ends calls at their deadlines, and gRPC's timers cost a hundredth
  // of a small pull; a Hello, on the other connection, is no call of a core.
  if (bulk) args.SetInt("grpc.enable_deadline_checking", 0);
  args.SetInt("grpc.service_config_disable_resolution", 1);
  args.SetInt("grpc.dns_min_time_between_resolutions_ms",
              static_cast<int>(absl::ToInt64Milliseconds(kLookUp)));
  args.SetInt("grpc.per_message_compression", 0);
  args.SetInt("grpc.per_message_decompression", 0);
  args.SetInt("grpc.compression_enabled_algorithms_bitset",
              1 << GRPC_COMPRESS_NONE);
  args.SetInt("grpc.initial_reconnect_backoff_ms", 100);
  args.SetInt("grpc.min_reconnect_backoff_ms", 1000);
  args.SetInt("grpc.max_reconnect_backoff_ms", 1000);
  args.SetInt("grpc.client_idle_timeout_ms", std::numeric_limits<int>::max());
  args.SetInt("grpc.keepalive_time_ms", bulk ? 30000 : 10000);
  args.SetInt("grpc.keepalive_timeout_ms", bulk ? 20000 : 10000);
  args.SetInt("grpc.keepalive_permit_without_calls", 1);
  args.SetInt("grpc.http2.max_pings_without_data", 0);
  args.SetMaxReceiveMessageSize(
      static_cast<int>(bulk ? kMostBulkBytes : kMostControlBytes));
  args.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomChannel(address, credentials, args);
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const Tls* tls,
                                                        const v1::Task& peer) {
  if (tls == nullptr) return grpc::InsecureChannelCredentials();
  return tls->CredentialsFor({tls->self().job,
                              peer.type() == v1::PS ? CertifiedName::Role::kPs
                              : peer.type() == v1::STAGE
                                  ? CertifiedName::Role::kStage
                                  : CertifiedName::Role::kWorker,
                              peer.index()});
}

void SetDeadline(Time deadline, grpc::ClientContext* context) {
  if (deadline == Time::Never()) return;
  const absl::Duration left =
      std::min(deadline - MonotonicNow(), absl::Hours(24));
  // Counted from when the call begins.
  context->set_deadline(
      gpr_time_from_micros(absl::ToInt64Microseconds(left), GPR_TIMESPAN));
}

// gRPC's own UNAVAILABLE, as opposed to a core's refusal for now.
bool IsConnectionLoss(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable &&
         RefusalOf(status).reason() == v1::Refusal::REASON_UNSPECIFIED;
}

void NotShared(PeerId peer, const absl::Status& why) {
  Log(LogLevel::kWarning, "memory is not shared",
      {{"with", PeerName(peer)}, {"why", why.message()}});
}

// Who answers instead, from the entry that differs.
std::string WhyRefused(absl::string_view entry, absl::string_view sentence) {
  if (entry == "task") return std::string(sentence);
  if (entry == "job_name") {
    return absl::StrCat("another job answers: ", sentence);
  }
  if (entry == "ps" || entry == "chief" || absl::StartsWith(entry, "ps[")) {
    return absl::StrCat("the same job with another TF_CONFIG answers: ",
                        sentence, "; give every process the same cluster");
  }
  return absl::StrCat("the same job with another job file answers: ", sentence,
                      "; give every process the same one");
}

}  // namespace

// One call of a core. In waiting_ until Hello is over, then in the queue, which
// owns it.
class PeerLink::Call : public Completion {
 public:
  Call(PeerLink* link, CallId id, PeerId from, PeerId to, Time deadline,
       const Method& method, grpc::ByteBuffer request)
      : id(id),
        to(to),
        method(method),
        link_(link),
        deadline_(deadline),
        request_(std::move(request)) {
    const uint32_t shards = link->self_->shards_per_server;
    // A shard calls as its task, whose certificate it has.
    const bool is_shard = from.kind == PeerId::Kind::kPs;
    context_.AddMetadata(
        kCallerKey,
        CallerText(is_shard ? PeerId::Ps(from.index / shards) : from));
    if (shards > 1 && to.kind == PeerId::Kind::kPs) {
      context_.AddMetadata(kShardKey, absl::StrCat(to.index % shards));
    }
  }

  // `process`: whom it is for; empty: whoever is there.
  void Begin(const std::string& process, grpc::GenericStub* stub,
             grpc::CompletionQueue* queue) {
    meant = process;
    if (!meant.empty()) context_.AddMetadata(kIncarnationKey, meant);
    SetDeadline(deadline_, &context_);
    reader_ = stub->PrepareUnaryCall(&context_, method.path, request_, queue);
    reader_->StartCall();
    reader_->Finish(&reply, &status, static_cast<Completion*>(this));
  }
  void Cancel() { context_.TryCancel(); }
  void Complete(bool) override {
    link_->Finished(this);
    delete this;
  }

  const CallId id;
  const PeerId to;
  const Method& method;
  // Has the memory that request and answer may lie in; null: there is none.
  std::shared_ptr<MemoryDial> shared;
  SharedMemory* memory() const {
    return shared == nullptr ? nullptr : shared->memory();
  }
  // The memory took the request's payload, or there was none to take.
  bool had_room = false;
  bool cancelled = false;
  bool replaced = false;  // Another process is the peer by now.
  std::string meant;      // As ProcessText.
  grpc::ByteBuffer reply;
  grpc::Status status;

 private:
  PeerLink* const link_;
  const Time deadline_;
  grpc::ByteBuffer request_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
};

class PeerLink::HelloCall : public Completion {
 public:
  using Done = void (PeerLink::*)(absl::Status, v1::HelloReply);

  HelloCall(PeerLink* link, grpc::GenericStub* control, Done done)
      : link_(link),
        done_(done),
        method_(*MethodTable::Get().OfRequest(v1::HelloRequest::descriptor())) {
    context_.AddMetadata(kCallerKey, CallerText(PeerOf(*link->self_)));
    SetDeadline(MonotonicNow() + link->patience_.hello, &context_);
    reader_ = control->PrepareUnaryCall(
        &context_, method_.path, EncodeMessage(MakeHello(*link->self_), {}),
        link->queue_);
    reader_->StartCall();
    reader_->Finish(&reply_, &status_, static_cast<Completion*>(this));
  }

  void Cancel() { context_.TryCancel(); }
  void Complete(bool) override {
    absl::Status status = FromGrpcStatus(status_);
    v1::HelloReply reply;
    if (status.ok()) status = Check(&reply);
    (link_->*done_)(status, std::move(reply));
    delete this;
  }

 private:
  static PeerId PeerOf(const Identity& self) {
    return self.task.type() == v1::PS       ? PeerId::Ps(self.task.index())
           : self.task.type() == v1::WORKER ? PeerId::Worker(self.task.index())
                                            : PeerId();
  }

  absl::Status Check(v1::HelloReply* reply) const {
    const auto message = DecodeMessage(reply_, *method_.reply);
    if (!message.ok()) return message.status();
    *reply = static_cast<const v1::HelloReply&>(*message->head);
    return CheckHelloReply(*link_->self_, link_->peer_, *reply);
  }

  PeerLink* const link_;
  const Done done_;
  const Method& method_;
  grpc::ClientContext context_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
};

PeerLink::PeerLink(PeerId peer, std::string address, const Identity* self,
                   std::shared_ptr<const Tls> tls, const Patience& patience,
                   CoreHost* host, grpc::CompletionQueue* queue)
    : peer_(peer),
      address_(std::move(address)),
      self_(self),
      tls_(std::move(tls)),
      credentials_(
          CredentialsOf(tls_.get(), TaskOf(peer, self->shards_per_server))),
      patience_(patience),
      host_(host),
      queue_(queue),
      connections_(Connect()) {}

PeerLink::~PeerLink() {
  StopSharing();
  CHECK(under_way_.empty() && hello_ == nullptr && hello_beside_ == nullptr,
        "calls have left the queue before their link goes");
}

void PeerLink::Send(CallId id, PeerId from, Outbox::SendItem item,
                    const Method& method) {
  // A machine that has vanished keeps its connections until pings time out.
  const bool reached = state_ == State::kGreeted && !HasMoved() && IsUp();
  auto shared = reached ? Shared() : nullptr;
  SharedMemory* const memory = shared == nullptr ? nullptr : shared->memory();
  const uint64_t without_room = memory == nullptr ? 0 : memory->without_room();
  OutgoingMessage request =
      EncodeRequest(method, *item.head, item.payload, memory);
  if (request.size > method.most_bytes()) {
    host_->Replied(
        id,
        Refuse(v1::Refusal::OVER_LIMIT, method.name,
               absl::StrCat("a ", method.name, " request of ", request.size,
                            " bytes; the limit is ", method.most_bytes())),
        nullptr, {});
    return;
  }
  if (!reached && waiting_.size() >= kMostWaiting) {
    host_->Replied(
        id,
        RefuseForNow(
            v1::Refusal::OVER_LIMIT, PeerName(item.to), absl::Milliseconds(100),
            absl::StrCat(kMostWaiting, " calls wait for ", PeerName(item.to))),
        nullptr, {});
    return;
  }
  auto call = std::make_unique<Call>(this, id, from, item.to,
                                     MonotonicNow() + item.deadline, method,
                                     std::move(request.bytes));
  call->had_room = memory != nullptr && memory->without_room() == without_room;
  call->shared = std::move(shared);
  if (reached) {
    Begin(std::move(call));
    return;
  }
  waiting_.push_back(std::move(call));
  if (state_ != State::kGreeting) Greet();
}

void PeerLink::Cancel(CallId id) {
  if (const auto it = under_way_.find(id); it != under_way_.end()) {
    it->second->cancelled = true;
    it->second->Cancel();
    return;
  }
  const auto it =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const auto& call) { return call->id == id; });
  if (it != waiting_.end()) waiting_.erase(it);
}

void PeerLink::CancelAll() {
  waiting_.clear();
  for (const auto& [id, call] : under_way_) call->Cancel();
  if (hello_ != nullptr) hello_->Cancel();
  if (hello_beside_ != nullptr) hello_beside_->Cancel();
}

// Channels of their own: those that are there know only the address that the
// name had, and where nothing comes back they find out late.
void PeerLink::Tick(Time now) {
  const bool is_silent = now >= silent_since_ + patience_.silence;
  // Nobody asks where nobody waits and the connection is known to be lost.
  const bool is_of_use = !under_way_.empty() || IsUp();
  if (!is_silent || !is_of_use || hello_beside_ != nullptr ||
      state_ != State::kGreeted || HasMoved()) {
    return;
  }
  beside_ = Connect();
  hello_beside_ =
      new HelloCall(this, beside_.control.get(), &PeerLink::GreetedBeside);
}

PeerLink::Connections PeerLink::Connect() const {
  Connections made;
  made.control_channel = MakeChannel(address_, credentials_, /*bulk=*/false);
  made.control = std::make_unique<grpc::GenericStub>(made.control_channel);
  made.bulk = std::make_unique<grpc::GenericStub>(
      MakeChannel(address_, credentials_, /*bulk=*/true));
  return made;
}

bool PeerLink::IsUp() const {
  return connections_.control_channel->GetState(/*try_to_connect=*/false) ==
         GRPC_CHANNEL_READY;
}

void PeerLink::Greet() {
  // A channel waits up to two minutes before it looks again for a name that had
  // no address, and meanwhile dials the address that the name had before; a new
  // one looks at once.
  const bool has_moved =
      find_ != nullptr && std::exchange(address_, find_()) != address_;
  if (has_moved || MonotonicNow() >= connect_again_) {
    connect_again_ = Time::Never();
    connections_ = Connect();
  }
  StopSharing();
  state_ = State::kGreeting;
  beside_ = Connections();  // What is heard there by now is older than this.
  hello_ = new HelloCall(this, connections_.control.get(), &PeerLink::Greeted);
}

void PeerLink::Meet(v1::HelloReply reply) {
  process_ = ProcessText(reply.incarnation());
  offer_ = std::move(*reply.mutable_shared_memory());
  ShareMemory();
  Heard();
}

void PeerLink::Heard() {
  silent_since_ = under_way_.empty() ? Time::Never() : MonotonicNow();
}

void PeerLink::GreetedBeside(absl::Status status, v1::HelloReply reply) {
  hello_beside_ = nullptr;
  Connections beside = std::exchange(beside_, Connections());
  // Nobody answers there either, or a call has found out more meanwhile.
  if (!status.ok() || beside.control == nullptr || state_ != State::kGreeted ||
      HasMoved()) {
    return;
  }
  if (ProcessText(reply.incarnation()) == process_) return Heard();
  Log(LogLevel::kInfo, "a peer is another process by now",
      {{"peer", PeerName(peer_)}, {"at", address_}});
  connections_ = std::move(beside);
  StopSharing();
  Meet(std::move(reply));
  for (const auto& [id, call] : under_way_) {
    call->replaced = true;
    call->Cancel();
  }
}

void PeerLink::Greeted(absl::Status status, v1::HelloReply reply) {
  hello_ = nullptr;
  state_ = status.ok() ? State::kGreeted : State::kStrange;
  if (status.ok()) Meet(std::move(reply));
  std::deque<std::unique_ptr<Call>> calls;
  calls.swap(waiting_);
  if (status.ok()) {
    for (auto& call : calls) Begin(std::move(call));
    return;
  }
  if (status.code() == absl::StatusCode::kDeadlineExceeded) {
    status = absl::UnavailableError(status.message());
  } else if (status.code() == absl::StatusCode::kUnimplemented) {
    // Whoever answers does not know Hello.
    status = absl::UnavailableError("not a paramd process");
  }
  if (IsConnectionLoss(status) && connect_again_ == Time::Never()) {
    connect_again_ = MonotonicNow() + kLookUp;
  }
  Log(LogLevel::kDebug, "hello failed",
      {{"why", Explain(peer_, status).message()}});
  for (const auto& call : calls) {
    host_->Replied(call->id, Explain(call->to, status), nullptr, {});
  }
}

void PeerLink::Begin(std::unique_ptr<Call> call) {
  Call* const begun = call.release();
  under_way_[begun->id] = begun;
  if (silent_since_ == Time::Never()) silent_since_ = MonotonicNow();
  const auto& stub =
      begun->method.bulk ? connections_.bulk : connections_.control;
  begun->Begin(process_, stub.get(), queue_);
}

// Null: there is nothing to share, or not yet.
std::shared_ptr<MemoryDial> PeerLink::Shared() {
  if (dial_ == nullptr) return nullptr;
  if (dial_->memory() == nullptr) {
    const absl::Status status = dial_->Look();
    if (absl::IsNotFound(status)) return nullptr;
    if (!status.ok()) {
      NotShared(peer_, status);
      dial_.reset();
      return nullptr;
    }
    Log(LogLevel::kInfo, "sharing memory", {{"with", PeerName(peer_)}});
  } else if (dial_->memory()->worn()) {
    StopSharing();
    ShareMemory();
    return nullptr;
  }
  return dial_;
}

void PeerLink::ShareMemory() {
  const std::string& machine = self_->shared_memory.machine();
  if (machine.empty() || machine != offer_.machine()) return;
  auto dial = MemoryDial::Begin(offer_);
  if (!dial.ok()) return NotShared(peer_, dial.status());
  dial_ = *std::move(dial);
}

void PeerLink::StopSharing() {
  if (dial_ != nullptr && dial_->memory() != nullptr) {
    const SharedMemory& memory = *dial_->memory();
    Log(LogLevel::kInfo, "shared memory is not used any more",
        {{"with", PeerName(peer_)},
         {"sent_bytes", memory.put_bytes()},
         {"received_bytes", memory.taken_bytes()},
         {"without_room", memory.without_room()}});
  }
  dial_.reset();
}

void PeerLink::Finished(Call* call) {
  under_way_.erase(call->id);
  absl::Status status = FromGrpcStatus(call->status);
  WireMessage message;
  if (status.ok()) status = Received(call, &message);
  // Whoever refuses has read what it refuses.
  if (status.ok() ||
      RefusalOf(status).reason() != v1::Refusal::REASON_UNSPECIFIED) {
    Heard();
  } else if (call->memory() != nullptr) {
    call->memory()->CountLoss();
  }
  if (call->cancelled) return;
  if (status.ok()) {
    host_->SharesMemory(call->to, call->had_room);
    host_->Replied(call->id, absl::OkStatus(), std::move(message.head),
                   std::move(message.payload));
    return;
  }
  if (IsForAnotherProcess(status)) {
    // A connection may still lead to whoever was there before: new ones lead to
    // the same process, and Hello finds out which.
    if (call->meant == process_) connect_again_ = Time();
    status = absl::UnavailableError(kAnotherProcess);
  } else if (call->replaced && IsConnectionLoss(status)) {
    status = absl::UnavailableError(kReplaced);
  }
  // What could not be reached may be somebody else when it can.
  if (IsConnectionLoss(status) && state_ == State::kGreeted &&
      !call->replaced) {
    state_ = State::kStrange;
  }
  host_->Replied(call->id, Explain(call->to, status), nullptr, {});
}

absl::Status PeerLink::Received(Call* call, WireMessage* message) {
  ASSIGN_OR_RETURN(*message, DecodeMessage(call->reply, *call->method.reply));
  const auto shared = TakeShared(message);
  if (!shared.has_value()) {
    // The peer's part of the memory had no room.
    if (ChainSize(message->payload) >= SharedMemory::kLeastBytes) {
      call->had_room = false;
    }
    return absl::OkStatus();
  }
  return TakeSharedPayload(*shared, call->memory(), message);
}

// Says whose connection it is, and in a few words why it is of no use. Refusals
// of the peer for other reasons are left as they are.
absl::Status PeerLink::Explain(PeerId to, const absl::Status& status) const {
  const v1::Refusal refusal = RefusalOf(status);
  std::string why;
  if (refusal.reason() == v1::Refusal::OTHER_JOB) {
    why = WhyRefused(refusal.entity(), status.message());
  } else if (IsConnectionLoss(status) ||
             status.code() == absl::StatusCode::kDeadlineExceeded) {
    why = tls_ == nullptr ? WhyFailedWithoutTls(status.message())
                          : tls_->WhyFailed(status.message());
    if (why.empty()) why = WhyUnreached(status.message());
  } else {
    return status;
  }
  absl::Status explained(
      status.code(), absl::StrCat(PeerName(to), " at ", address_, ": ", why));
  // Of a name with another address by now it says nothing.
  if (why == "refused" || why == kAnotherProcess) MarkEnded(&explained);
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    explained.SetPayload(type, payload);
  });
  return explained;
}

}  // namespace paramd
