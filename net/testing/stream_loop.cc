#include "net/testing/stream_loop.h"

#include <chrono>
#include <future>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpc/support/time.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace paramd {

StreamLoop::StreamLoop(const std::function<void(StreamServer*)>& prepare) {
  // gRPC's own end may wait ten seconds for a thread that helped with a write.
  [[maybe_unused]] static const bool once = [] {
    grpc_init();
    return true;
  }();
  prepare(&streams_);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  streams_.AddTo(&builder);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
  streams_.Start(queue_.get());
  thread_ = std::thread([this] {
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) {
      static_cast<Completion*>(tag)->Complete(ok);
    }
  });
}

StreamLoop::~StreamLoop() {
  Do([this] {
    streams_.RefuseAll(absl::UnavailableError("the test is over"));
    streams_.Stop();
  });
  server_->Shutdown(std::chrono::system_clock::now());
  // Nothing may be started on a queue that is shut down.
  int left = 1;
  while (left > 0) Do([&] { left = streams_.calls_left(); });
  queue_->Shutdown();
  thread_.join();
}

void StreamLoop::Do(std::function<void()> f) {
  const auto done = std::make_shared<std::promise<void>>();
  mailbox_.Post([done, &f] {
    f();
    done->set_value();
  });
  done->get_future().wait();
}

}  // namespace paramd
