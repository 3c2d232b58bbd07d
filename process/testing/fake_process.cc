#include "process/testing/fake_process.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {

struct FakeProcess::Call {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  bool answered = false;
};

FakeProcess::FakeProcess(v1::StatusReply reply) : reply_(std::move(reply)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  thread_ = std::thread([this] { Serve(); });
}

FakeProcess::~FakeProcess() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  thread_.join();
}

std::string FakeProcess::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void FakeProcess::Accept() {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  auto* call = new Call;
  service_.RequestCall(&call->context, &call->stream, queue_.get(),
                       queue_.get(), call);
}

void FakeProcess::Serve() {
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
    grpc::ByteBuffer bytes;
    bool own = false;
    grpc::SerializationTraits<v1::StatusReply>::Serialize(reply_, &bytes, &own);
    call->stream.WriteAndFinish(bytes, {}, grpc::Status::OK, call);
  }
}

}  // namespace paramd
