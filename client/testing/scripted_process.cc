#include "client/testing/scripted_process.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "net/caller.h"
#include "net/grpc_status.h"

namespace paramd {
namespace {

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  buffer.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

struct ScriptedProcess::Open {
  enum class State { kAccepting, kReading, kAnswered };
  State state = State::kAccepting;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer request;
};

ScriptedProcess::ScriptedProcess(Answer answer, const std::string& also_at)
    : answer_(std::move(answer)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  if (!also_at.empty()) {
    builder.AddListeningPort(also_at, grpc::InsecureServerCredentials());
  }
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  thread_ = std::thread([this] { Serve(); });
}

ScriptedProcess::~ScriptedProcess() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  thread_.join();
}

std::string ScriptedProcess::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void ScriptedProcess::Accept() {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  auto* open = new Open;
  service_.RequestCall(&open->context, &open->stream, queue_.get(),
                       queue_.get(), open);
}

void ScriptedProcess::Serve() {
  Accept();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    auto* open = static_cast<Open*>(tag);
    if (!ok || open->state == Open::State::kAnswered) {
      delete open;
    } else if (open->state == Open::State::kAccepting) {
      Accept();
      open->state = Open::State::kReading;
      open->stream.Read(&open->request, open);
    } else {
      Reply(open);
    }
  }
}

void ScriptedProcess::Reply(Open* open) {
  open->state = Open::State::kAnswered;
  Call call;
  call.method = open->context.method();
  const auto& metadata = open->context.client_metadata();
  const auto shard = metadata.find(kShardKey);
  if (shard != metadata.end()) {
    call.shard.assign(shard->second.data(), shard->second.size());
  }
  call.request = BytesOf(open->request);
  const auto answer = answer_(call);
  if (!answer.ok()) {
    return open->stream.Finish(ToGrpcStatus(answer.status()), open);
  }
  grpc::Slice slice(*answer);
  open->stream.WriteAndFinish(grpc::ByteBuffer(&slice, 1), {}, grpc::Status::OK,
                              open);
}

}  // namespace paramd
