#include "net/grpc_runtime.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/grpc.h"
#include "grpc/support/log.h"
#include "grpc/support/time.h"
#include "grpcpp/alarm.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/lock_cycles.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/busy_poll.h"
#include "net/completion.h"
#include "net/core_host.h"
#include "net/descriptors.h"
#include "net/hello.h"
#include "net/listen_address.h"
#include "net/listener.h"
#include "net/mailbox.h"
#include "net/memory_listener.h"
#include "net/memory_socket.h"
#include "net/method_table.h"
#include "net/operator_socket.h"
#include "net/peer_link.h"
#include "net/request_server.h"

namespace paramd {
namespace {

// Events given to cores before the queue is looked at again.
constexpr int kTurnsPerLook = 16;
// Of more calls under way the answers come in bunches to who sleeps meanwhile:
// asking would take them one by one.
constexpr size_t kMostCallsToAskFor = 8;
// How often peers are looked at that may be silent, at least.
constexpr absl::Duration kLookAtLinks = absl::Seconds(1);

// Whoever called learns only that its connection is lost. Logged the 1st, 2nd,
// 4th, 8th … time. Any thread.
void LogHandshakeFailure(absl::string_view message) {
  static std::atomic<uint64_t> failures{0};
  const std::string why = HandshakeFailure(message);
  if (why.empty()) return;
  const uint64_t times = ++failures;
  if ((times & (times - 1)) != 0) return;
  Log(LogLevel::kWarning, "TLS handshake failed",
      {{"times", times}, {"why", why}});
}

// gRPC is never shut down: its end waits for its own threads, up to 10 s if one
// of them is helping with a write. It and protobuf write to stderr in their own
// form; what matters comes back as a status.
void PrepareLibraries() {
  [[maybe_unused]] static const bool once = [] {
    LookForNoLockCycles();
    grpc_init();
    return true;
  }();
  gpr_set_log_function([](gpr_log_func_args* args) {
    LogHandshakeFailure(args->message);
    Log(LogLevel::kDebug, "grpc", {{"message", args->message}});
  });
  google::protobuf::SetLogHandler(nullptr);
}

gpr_timespec ToGrpcTime(Time time, Time now) {
  if (time == Time::Never()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (time <= now) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(time - now), GPR_TIMESPAN));
}

class GrpcRuntime : public Runtime, private CoreHost::Transport {
 public:
  explicit GrpcRuntime(GrpcRuntimeOptions options)
      : options_(std::move(options)),
        self_{options_.self,
              options_.incarnation,
              options_.build,
              options_.job_name,
              options_.job_digest,
              options_.job_settings,
              options_.cluster,
              {},
              options_.shards_per_server},
        mailbox_(std::make_shared<Mailbox>([this] { Wake(); })),
        host_(this, mailbox_) {}
  ~GrpcRuntime() override { Close(); }

  absl::Status Listen();

  void AddCore(PeerId self, Core* core) override { host_.AddCore(self, core); }
  void OnExpired(PeerId self, std::function<void(CallId)> f) override {
    host_.OnExpired(self, std::move(f));
  }
  void HandleIo(const google::protobuf::Descriptor* type,
                IoHandler handler) override {
    host_.HandleIo(type, std::move(handler));
  }
  void OnStatus(std::function<void(v1::StatusReply*)> fill) override {
    host_.OnStatus(std::move(fill));
  }
  v1::StatusReply Status() override {
    v1::StatusReply status;
    *status.mutable_task() = self_.task;
    status.set_incarnation(self_.incarnation);
    server_->FillStatus(&status);
    return status;
  }
  void Ask(PeerId to, Head request, absl::Duration deadline,
           Answer done) override {
    host_.Ask(to, std::move(request), deadline, std::move(done),
              MonotonicNow());
  }
  void Post(std::function<void()> f) override { mailbox_->Post(std::move(f)); }
  std::function<void()> Waker() override {
    return [mailbox = mailbox_] { mailbox->Post([] {}); };
  }
  void Drain(absl::Status status, absl::Duration timeout) override {
    mailbox_->Post([this, status, timeout] {
      server_->SetDraining();
      host_.Drain(status, timeout, MonotonicNow());
    });
  }
  void Stop(absl::Status status) override {
    mailbox_->Post([this, status] { host_.End(status); });
  }
  absl::Status Run() override;

 private:
  // Posted functions have come. Any thread.
  class WakeTag : public Completion {
   public:
    explicit WakeTag(GrpcRuntime* runtime) : runtime_(runtime) {}
    void Complete(bool) override { runtime_->RunPosted(); }

   private:
    GrpcRuntime* const runtime_;
  };

  // What the queue has to tell.
  struct Ended {
    void* tag = nullptr;
    bool ok = false;
  };

  // Its descriptor; nullopt: its directory is not there yet; -1: it can't be
  // opened, which is logged.
  absl::optional<int> OpenOperatorSocket();
  std::unique_ptr<MemoryListener> ShareMemory();
  void Send(CallId id, PeerId from, Outbox::SendItem item) override;
  void Cancel(CallId id) override;
  void Reply(Outbox::ReplyItem item) override {
    server_->Reply(std::move(item));
  }
  void CancelOldestReply() override {
    server_->CancelOldestReply(MonotonicNow());
  }

  bool HasPeers() const override { return !options_.peers.empty(); }

  // Called with the mailbox's lock held; at most once until RunPosted.
  void Wake() {
    alarm_.Set(server_->queue(), gpr_inf_past(GPR_CLOCK_MONOTONIC),
               static_cast<Completion*>(&wake_tag_));
  }
  void RunPosted() {
    for (const auto& f : mailbox_->Take()) f();
  }

  void LookAtLinks(Time now);
  // One completion, if one comes before `until`; it is `now`.
  bool Look(Time until, Time now);
  bool Next(gpr_timespec until, Ended* ended);
  void SendAnswers();
  void Close();

  PeerId ProcessOf(PeerId peer) const;

  const GrpcRuntimeOptions options_;
  Identity self_;  // Complete, and the same for good, from Listen on.
  const std::shared_ptr<Mailbox> mailbox_;
  CoreHost host_;
  WakeTag wake_tag_{this};
  std::unique_ptr<OperatorSocket> operator_socket_;  // May be null.
  std::unique_ptr<RequestServer> server_;
  grpc::Alarm alarm_;
  std::map<PeerId, std::unique_ptr<PeerLink>> links_;  // One for a process.
  Time look_at_links_;
  BusyPoll busy_poll_;
  bool closed_ = false;
};

absl::optional<int> GrpcRuntime::OpenOperatorSocket() {
  auto socket = OperatorSocket::Bind(options_.operator_socket);
  if (absl::IsNotFound(socket.status())) return absl::nullopt;
  if (!socket.ok()) {
    Log(LogLevel::kWarning, "operators can't call this process",
        {{"why", socket.status().message()}});
    return -1;
  }
  operator_socket_ = *std::move(socket);
  return operator_socket_->fd();
}

absl::Status GrpcRuntime::Listen() {
  RaiseDescriptorLimit();
  std::set<PeerId> called;
  for (const auto& [peer, address] : options_.peers) {
    called.insert(ProcessOf(peer));
  }
  RETURN_IF_ERROR(CheckDescriptors(options_.workers, called.size()));
  // With TLS, who reaches an address is not let in for that.
  const bool anywhere = options_.insecure || options_.tls != nullptr;
  const bool has_address = !options_.listen_address.empty();
  if (has_address && !anywhere) {
    RETURN_IF_ERROR(CheckListenAddress(options_.listen_address));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                   has_address ? Listener::Bind(options_.listen_address,
                                                /*or_everywhere=*/anywhere,
                                                ConnectionsOf(options_.workers))
                               : Listener::Make());
  if (!options_.operator_socket.empty()) {
    const absl::optional<int> fd = OpenOperatorSocket();
    if (fd.value_or(-1) >= 0) listener->Add(*fd);
    if (!fd.has_value()) {
      listener->AddWhenOpen([this] { return OpenOperatorSocket(); });
    }
  }
  std::unique_ptr<MemoryListener> memories = ShareMemory();
  ASSIGN_OR_RETURN(server_,
                   RequestServer::Make(
                       std::move(listener), &self_, &host_, options_.tls,
                       [this](absl::Status status) { host_.End(status); },
                       options_.process_calls, options_.operator_calls));
  server_->ShareMemory(std::move(memories));
  if (!options_.health_address.empty()) {
    RETURN_IF_ERROR(server_->ServeHealth(
        options_.health_address, anywhere,
        [mailbox = mailbox_](auto f) { mailbox->Post(std::move(f)); }));
  }
  server_->LimitUnread(options_.longest_unread);
  server_->MakeRoomFor(options_.workers);
  server_->RecordIn(options_.trace);
  if (options_.memory_limit_bytes > 0) {
    server_->LimitReceived(options_.memory_limit_bytes);
  }
  return absl::OkStatus();
}

// Parameter servers and stages are who payloads come from and go to; the others
// make the memory. Null: there is nothing to listen for.
std::unique_ptr<MemoryListener> GrpcRuntime::ShareMemory() {
  if (!options_.shared_memory) return nullptr;
  if (self_.task.type() != v1::PS && self_.task.type() != v1::STAGE) {
    self_.shared_memory.set_machine(SharedMachineName());
    return nullptr;
  }
  auto memories = MemoryListener::Start();
  if (!memories.ok()) {
    Log(LogLevel::kWarning, "no memory is shared",
        {{"why", memories.status().message()}});
    return nullptr;
  }
  self_.shared_memory = (*memories)->offer();
  return *std::move(memories);
}

absl::Status GrpcRuntime::Run() {
  server_->Start();
  Time now = MonotonicNow();
  host_.Start(now);
  while (!host_.ended()) {
    int turns = 0;
    do {
      if (!host_.Turn(now)) break;
      now = MonotonicNow();
    } while (!host_.ended() && ++turns < kTurnsPerLook &&
             host_.has_waiting_events());
    if (host_.ended()) break;
    server_->Expire(now);
    LookAtLinks(now);
    const Time next_look = host_.TellWaits(now);
    // Something is left to do at once: then one look, without waiting.
    const Time until =
        host_.has_waiting_events()
            ? Time()
            : std::min({host_.next_wakeup(), server_->next_deadline(),
                        next_look, look_at_links_});
    Look(until, now);
    now = MonotonicNow();
  }
  SendAnswers();
  Close();
  return host_.end_status();
}

void GrpcRuntime::LookAtLinks(Time now) {
  if (now < look_at_links_) return;
  look_at_links_ = now + std::min(kLookAtLinks, options_.longest_silence);
  for (const auto& [peer, link] : links_) link->Tick(now);
}

bool GrpcRuntime::Look(Time until, Time now) {
  const Time began = now;
  const bool asks = host_.open_calls() <= kMostCallsToAskFor;
  const Time patient =
      asks ? std::min(until, began + busy_poll_.Patience(began)) : began;
  Ended ended;
  bool came = false;
  int times = 0;
  for (; !came && now < patient; ++times) {
    came = Next(gpr_inf_past(GPR_CLOCK_MONOTONIC), &ended);
    now = MonotonicNow();
  }
  // What was there at once would not have been slept for.
  if (!came || times > 1) busy_poll_.Asked(now - began, came);
  if (!came && !Next(ToGrpcTime(until, now), &ended)) return false;
  static_cast<Completion*>(ended.tag)->Complete(ended.ok);
  return true;
}

bool GrpcRuntime::Next(gpr_timespec until, Ended* ended) {
  return server_->queue()->AsyncNext(&ended->tag, &ended->ok, until) ==
         grpc::CompletionQueue::GOT_EVENT;
}

void GrpcRuntime::Send(CallId id, PeerId from, Outbox::SendItem item) {
  const Method* method =
      MethodTable::Get().OfRequest(item.head->GetDescriptor());
  CHECK(method != nullptr, "a core sends requests of services.proto");
  const PeerId process = ProcessOf(item.to);
  std::unique_ptr<PeerLink>& link = links_[process];
  if (link == nullptr) {
    const auto address = options_.peers.find(item.to);
    if (address == options_.peers.end()) {
      links_.erase(process);
      host_.Replied(id,
                    absl::UnavailableError(absl::StrCat(
                        PeerName(item.to), " is not a known peer")),
                    nullptr, {});
      return;
    }
    link = std::make_unique<PeerLink>(
        process, address->second, &self_, options_.tls,
        PeerLink::Patience{options_.hello_deadline, options_.longest_silence},
        &host_, server_->queue());
    if (item.to == PeerId::Coordinator()) {
      link->FindBy(options_.find_coordinator);
    }
  }
  link->Send(id, from, std::move(item), *method);
}

// The first of those that are in one process with it.
PeerId GrpcRuntime::ProcessOf(PeerId peer) const {
  if (peer.kind != PeerId::Kind::kPs) return peer;
  return PeerId::Ps(peer.index - peer.index % options_.shards_per_server);
}

void GrpcRuntime::Cancel(CallId id) {
  for (const auto& [peer, link] : links_) link->Cancel(id);
}

// Answers that were given are sent; nobody is left without one.
void GrpcRuntime::SendAnswers() {
  const Time until = MonotonicNow() + options_.drain_deadline;
  server_->RefuseAll(absl::UnavailableError("this process is ending"));
  for (Time now = MonotonicNow();
       server_->answers_under_way() > 0 && now < until; now = MonotonicNow()) {
    Look(until, now);
  }
}

void GrpcRuntime::Close() {
  if (closed_ || server_ == nullptr) return;
  closed_ = true;
  mailbox_->Close();
  for (const auto& [peer, link] : links_) link->CancelAll();
  server_->RefuseAll(absl::UnavailableError("this process is ending"));
  server_->Shutdown();
  // Nothing may be started on a queue that is shut down.
  while (server_->requests_left() > 0) {
    Look(Time::Never(), MonotonicNow());
  }
  server_->queue()->Shutdown();
  void* tag;
  bool ok;
  while (server_->queue()->Next(&tag, &ok)) {
    static_cast<Completion*>(tag)->Complete(ok);
  }
  links_.clear();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runtime>> MakeGrpcRuntime(
    GrpcRuntimeOptions options) {
  PrepareLibraries();
  auto runtime = std::make_unique<GrpcRuntime>(std::move(options));
  RETURN_IF_ERROR(runtime->Listen());
  return std::unique_ptr<Runtime>(std::move(runtime));
}

}  // namespace paramd
