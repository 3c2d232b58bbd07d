#include "cli/status_poller.h"

#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

// Answers every call with the same status until it is destroyed.
class FakeProcess {
 public:
  FakeProcess() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeProcess() {
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    thread_.join();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    bool answered = false;
  };

  void Accept() {
    auto* call = new Call;
    service_.RequestCall(&call->context, &call->stream, queue_.get(),
                         queue_.get(), call);
  }

  void Serve() {
    Accept();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      auto* call = static_cast<Call*>(tag);
      if (!ok || call->answered) {
        delete call;
        continue;
      }
      Accept();
      call->answered = true;
      v1::StatusReply reply;
      reply.mutable_server()->set_bytes(77);
      grpc::ByteBuffer bytes;
      bool own = false;
      grpc::SerializationTraits<v1::StatusReply>::Serialize(reply, &bytes,
                                                            &own);
      call->stream.WriteAndFinish(bytes, {}, grpc::Status::OK, call);
    }
  }

  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

TEST(StatusPollerTest, AnswersComeBackAndSilenceIsToldApart) {
  auto process = std::make_unique<FakeProcess>();
  // Nobody listens on port 1 of this address.
  StatusPoller poller({process->address(), "127.77.77.77:1"},
                      absl::Milliseconds(100));
  while (!poller.Newest()[0].answered_last) usleep(1000);
  auto answers = poller.Newest();
  EXPECT_EQ(answers[0].newest->server().bytes(), 77);
  EXPECT_FALSE(answers[1].answered_last);
  EXPECT_FALSE(answers[1].newest.has_value());
  process.reset();
  while (poller.Newest()[0].answered_last) usleep(1000);
  EXPECT_EQ(poller.Newest()[0].newest->server().bytes(), 77);
}

}  // namespace
}  // namespace paramd
