#ifndef PARAMD_NET_TESTING_STREAM_LOOP_H_
#define PARAMD_NET_TESTING_STREAM_LOOP_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "grpc/support/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server.h"

#include "net/completion.h"
#include "net/mailbox.h"
#include "net/stream_server.h"

namespace paramd {

// A server of nothing but streams, and the thread that is their loop.
//
//   StreamLoop loop([&](StreamServer* streams) { health.AddTo(streams); });
//   loop.Do([&] { health.SetDraining(); });
class StreamLoop {
 public:
  explicit StreamLoop(const std::function<void(StreamServer*)>& prepare);
  ~StreamLoop();

  const std::string& address() const { return address_; }
  StreamServer& streams() { return streams_; }
  // Runs `f` on the loop thread and waits until it has run.
  void Do(std::function<void()> f);

 private:
  // What Do was given has come.
  class WakeTag : public Completion {
   public:
    explicit WakeTag(Mailbox* mailbox) : mailbox_(mailbox) {}
    void Complete(bool) override {
      for (const auto& f : mailbox_->Take()) f();
    }

   private:
    Mailbox* const mailbox_;
  };

  void Wake() {
    alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC),
               static_cast<Completion*>(&wake_tag_));
  }

  Mailbox mailbox_{[this] { Wake(); }};
  WakeTag wake_tag_{&mailbox_};
  StreamServer streams_;
  std::string address_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  grpc::Alarm alarm_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_STREAM_LOOP_H_
