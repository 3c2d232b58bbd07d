#include "net/stream_server.h"

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/completion.h"
#include "net/grpc_status.h"
#include "net/wire_message.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr size_t kMostOpen = 256;
constexpr absl::Duration kLongestSilence = absl::Seconds(60);

}  // namespace

// From before it comes until nothing of it is left in the queue.
class StreamServer::Call final : public Stream {
 public:
  explicit Call(StreamServer* server) : server_(server) {
    ++server->calls_left_;
    context_.AsyncNotifyWhenDone(done_.tag());
    server->service_.RequestCall(&context_, &stream_, server->queue_,
                                 server->queue_, arrival_.tag());
  }
  ~Call() {
    --server_->calls_left_;
    server_->open_.erase(this);
    server_->deadlines_.erase({deadline_, this});
  }

  const std::string& method() const { return context_.method(); }
  void Begin(const MakeHandler& make) {
    handler_ = make(this);
    Hear();
    Read();
  }
  // Ends the call now, even if the caller does not take what was written.
  void Cut(const absl::Status& status) {
    if (writing_ || finished_) context_.TryCancel();
    if (finished_) ExpectSilence();  // It is over in a moment.
    Finish(status);
  }

  bool may_write() const override { return !writing_ && !finished_; }
  void Write(const google::protobuf::Message& message) override {
    CHECK(may_write(), "one message is on its way at a time");
    writing_ = true;
    ++in_queue_;
    stream_.Write(EncodeMessage(message, {}), write_.tag());
  }
  void Finish(const absl::Status& status) override {
    if (finished_) return;
    finished_ = true;
    end_ = status;
    ++server_->ends_under_way_;
    Hear();  // Who reads takes the end by then.
    if (!writing_) SendEnd();
  }
  void ExpectSilence() override {
    server_->deadlines_.erase({deadline_, this});
    deadline_ = Time::Never();
  }

 private:
  // One operation in the queue.
  class Operation : public Completion {
   public:
    Operation(Call* call, void (Call::*then)(bool))
        : call_(call), then_(then) {}
    void* tag() { return static_cast<Completion*>(this); }
    void Complete(bool ok) override { (call_->*then_)(ok); }

   private:
    Call* const call_;
    void (Call::*const then_)(bool);
  };

  void Arrived(bool ok) {
    if (!ok) {  // The server is shutting down.
      delete this;
      return;
    }
    in_queue_ = 1;  // done_.
    server_->open_.insert(this);
    server_->Arrived(this);
  }
  void Hear() {
    ExpectSilence();
    deadline_ = MonotonicNow() + kLongestSilence;
    server_->deadlines_.insert({deadline_, this});
  }
  void Read() {
    if (reading_ || silent_ || finished_) return;
    reading_ = true;
    ++in_queue_;
    stream_.Read(&message_, read_.tag());
  }
  void HasRead(bool ok) {
    --in_queue_;
    reading_ = false;
    silent_ = !ok;
    if (handler_ != nullptr && !finished_) {
      if (!ok) {
        handler_->HalfClosed();
      } else {
        if (deadline_ != Time::Never()) Hear();
        handler_->Received(message_);
        message_.Clear();
        if (!writing_) Read();
      }
    }
    DeleteIfLeft();
  }
  void HasWritten(bool ok) {
    --in_queue_;
    writing_ = false;
    if (finished_) {
      SendEnd();
    } else if (ok && handler_ != nullptr) {
      handler_->Written();
      if (!writing_) Read();
    }
    DeleteIfLeft();
  }
  void SendEnd() {
    ++in_queue_;
    stream_.Finish(ToGrpcStatus(end_), finish_.tag());
  }
  void HasFinished(bool) {
    --in_queue_;
    --server_->ends_under_way_;
    DeleteIfLeft();
  }
  // The call is over, also for those that were not told that it ends.
  void IsDone(bool) {
    --in_queue_;
    handler_.reset();
    ExpectSilence();
    DeleteIfLeft();
  }
  void DeleteIfLeft() {
    if (in_queue_ == 0) delete this;
  }

  StreamServer* const server_;
  Operation arrival_{this, &Call::Arrived};
  Operation read_{this, &Call::HasRead};
  Operation write_{this, &Call::HasWritten};
  Operation finish_{this, &Call::HasFinished};
  Operation done_{this, &Call::IsDone};
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer message_;
  std::unique_ptr<StreamHandler> handler_;
  Time deadline_ = Time::Never();
  int in_queue_ = 0;
  bool reading_ = false;
  bool silent_ = false;  // The caller sends nothing more.
  bool writing_ = false;
  bool finished_ = false;
  absl::Status end_;
};

StreamServer::StreamServer() = default;

StreamServer::~StreamServer() {
  CHECK(calls_left_ == 0, "calls have left the queue before their server goes");
}

void StreamServer::AddTo(grpc::ServerBuilder* builder) {
  builder->RegisterAsyncGenericService(&service_);
}

void StreamServer::Serve(const std::string& path, MakeHandler make) {
  methods_[path] = std::move(make);
}

void StreamServer::Start(grpc::ServerCompletionQueue* queue) {
  queue_ = queue;
  Expect();
}

void StreamServer::Stop() { stopped_ = true; }

void StreamServer::Expect() {
  if (!stopped_) new Call(this);
}

void StreamServer::Arrived(Call* call) {
  Expect();
  if (!refuse_all_.ok()) {
    call->Finish(refuse_all_);
    return;
  }
  const auto method = methods_.find(call->method());
  if (method == methods_.end()) {
    call->Finish(absl::UnimplementedError(
        absl::StrCat(call->method(), " is not served")));
    return;
  }
  if (open_.size() > kMostOpen && !MakeRoom()) {
    call->Finish(TooMany());
    return;
  }
  call->Begin(method->second);
}

// Ends the call of the caller that has been silent longest. False if all are
// expected to be.
bool StreamServer::MakeRoom() {
  if (deadlines_.empty()) return false;
  deadlines_.begin()->second->Cut(TooMany());
  return true;
}

absl::Status StreamServer::TooMany() {
  ++over_limit_;
  if ((over_limit_ & (over_limit_ - 1)) == 0) {
    Log(LogLevel::kWarning, "streams over a limit", {{"times", over_limit_}});
  }
  return RefuseForNow(v1::Refusal::OVER_LIMIT, "streams", absl::Seconds(1),
                      absl::StrCat(kMostOpen, " streams are open"));
}

void StreamServer::RefuseAll(const absl::Status& status) {
  refuse_all_ = status;
  for (Call* const call : open_) call->Finish(status);
}

void StreamServer::Expire(Time now) {
  while (next_deadline() <= now) {
    deadlines_.begin()->second->Cut(absl::DeadlineExceededError(absl::StrCat(
        "no message for ", absl::FormatDuration(kLongestSilence))));
  }
}

Time StreamServer::next_deadline() const {
  return deadlines_.empty() ? Time::Never() : deadlines_.begin()->first;
}

}  // namespace paramd
