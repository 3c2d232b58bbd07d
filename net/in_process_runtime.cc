#include "net/in_process_runtime.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "net/core_host.h"
#include "net/mailbox.h"

namespace paramd {
namespace {

class InProcessRuntime : public Runtime {
 public:
  InProcessRuntime()
      : mailbox_(std::make_shared<Mailbox>()),
        host_(/*transport=*/nullptr, mailbox_) {}
  ~InProcessRuntime() override { mailbox_->Close(); }

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
    host_.FillStatus(&status);
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
      host_.Drain(status, timeout, MonotonicNow());
    });
  }
  void Stop(absl::Status status) override {
    mailbox_->Post([this, status] { host_.End(status); });
  }

  absl::Status Run() override {
    host_.Start(MonotonicNow());
    while (!host_.ended()) {
      for (const auto& f : mailbox_->Take()) f();
      if (host_.ended()) break;
      const Time now = MonotonicNow();
      if (host_.Turn(now) || host_.ended()) continue;
      const Time next = std::min(host_.TellWaits(now), host_.next_wakeup());
      mailbox_->Wait(next - MonotonicNow());
    }
    mailbox_->Close();
    return host_.end_status();
  }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  CoreHost host_;
};

}  // namespace

std::unique_ptr<Runtime> MakeInProcessRuntime() {
  return std::make_unique<InProcessRuntime>();
}

}  // namespace paramd
