#include "net/operator_desk.h"

#include <map>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "net/method_table.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {
namespace {

using Proto = ::google::protobuf::Message;

// As long as an operator's call may wait for its core.
constexpr absl::Duration kDeskPatience = absl::Seconds(60);
constexpr absl::Duration kLastAnswers = absl::Milliseconds(100);

std::shared_ptr<Proto> Copy(const Proto& message) {
  std::shared_ptr<Proto> copy(message.New());
  copy->CopyFrom(message);
  return copy;
}

Outbox::Head CopyHead(const Proto& message) {
  Outbox::Head copy(message.New());
  copy->CopyFrom(message);
  return copy;
}

}  // namespace

// Stands in for the coordinator: whatever it is asked is work, done by asking
// the one behind.
class OperatorDesk::Front : public Core {
 public:
  void Start(Time, Outbox*) override {}
  void Receive(paramd::Message message, Time, Outbox* out) override {
    if (message.is_reply) return;
    calls_[++io_] = message.call;
    out->StartIo(io_, CopyHead(*message.head));
  }
  void Completed(IoResult result, Time, Outbox* out) override {
    const auto call = calls_.find(result.io);
    if (call == calls_.end()) return;
    if (result.status.ok()) {
      out->Reply(call->second, std::move(result.head));
    } else {
      out->Refuse(call->second, std::move(result.status));
    }
    calls_.erase(call);
    LeaveIfDone(out);
  }
  // What those behind have answered is on its way; the rest they never will.
  void Drain(Time now, Outbox* out) override {
    leave_at_ = now + kLastAnswers;
    LeaveIfDone(out);
  }
  void Tick(Time now, Outbox* out) override {
    if (now >= leave_at_) out->Exit(absl::OkStatus());
  }
  Time next_tick() const override { return leave_at_; }

 private:
  void LeaveIfDone(Outbox* out) const {
    if (leave_at_ != Time::Never() && calls_.empty()) {
      out->Exit(absl::OkStatus());
    }
  }

  Time leave_at_ = Time::Never();
  IoId io_ = 0;
  std::map<IoId, CallId> calls_;  // Bound: as of the runtime's works.
};

absl::StatusOr<std::unique_ptr<OperatorDesk>> OperatorDesk::Open(
    GrpcRuntimeOptions options, Runtime* behind) {
  options.listen_address.clear();
  options.peers.clear();
  options.shared_memory = false;
  ASSIGN_OR_RETURN(std::unique_ptr<Runtime> runtime,
                   MakeGrpcRuntime(std::move(options)));
  return std::unique_ptr<OperatorDesk>(
      new OperatorDesk(std::move(runtime), behind));
}

OperatorDesk::OperatorDesk(std::unique_ptr<Runtime> runtime, Runtime* behind)
    : front_(std::make_unique<Front>()), runtime_(std::move(runtime)) {
  runtime_->AddCore(PeerId::Coordinator(), front_.get());
  for (const Method& method : MethodTable::Get().methods()) {
    if (method.served_by != PeerId::Kind::kCoordinator) continue;
    runtime_->HandleIo(
        method.request->GetDescriptor(),
        [behind](Outbox::IoItem item, Runtime::IoDone done) {
          const std::shared_ptr<Proto> request = Copy(*item.head);
          behind->Post([behind, request, done = std::move(done)] {
            behind->Ask(PeerId::Coordinator(), CopyHead(*request),
                        kDeskPatience,
                        [done](const absl::Status& status, const Proto* reply) {
                          IoResult result;
                          result.status = status;
                          if (reply != nullptr) result.head = CopyHead(*reply);
                          done(std::move(result));
                        });
          });
        });
  }
  thread_ = std::thread([this] { runtime_->Run().IgnoreError(); });
}

OperatorDesk::~OperatorDesk() {
  runtime_->Drain(absl::OkStatus(), absl::Seconds(1));
  thread_.join();
}

}  // namespace paramd
