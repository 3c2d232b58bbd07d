#include "net/testing/raw_caller.h"

#include <chrono>
#include <string>
#include <utility>

#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/channel_arguments.h"

#include "net/grpc_status.h"

namespace paramd {
namespace {

std::string Flatten(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()),
                     slice.size());
}

// A connection of its own.
std::shared_ptr<grpc::Channel> Connect(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr) {
  grpc::ChannelArguments args;
  args.SetInt("grpc.use_local_subchannel_pool", 1);
  args.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(
      address,
      credentials == nullptr ? grpc::InsecureChannelCredentials() : credentials,
      args);
}

struct OpenCall {
  grpc::ClientContext context;
  grpc::ByteBuffer reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
};

}  // namespace

RawCaller::RawCaller(const std::string& address, std::string process,
                     std::shared_ptr<grpc::ChannelCredentials> credentials)
    : channel_(Connect(address, credentials)), process_(std::move(process)) {}

absl::StatusOr<std::string> RawCaller::Call(const std::string& path,
                                            const std::string& caller,
                                            const std::string& request) {
  grpc::ClientContext context;
  return Finish(path, caller, request, &context);
}

absl::StatusOr<std::string> RawCaller::CallCompressed(
    const std::string& path, const std::string& caller,
    const std::string& request) {
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  return Finish(path, caller, request, &context);
}

absl::StatusOr<std::string> RawCaller::Finish(const std::string& path,
                                              const std::string& caller,
                                              const std::string& request,
                                              grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(60));
  if (!caller.empty()) context->AddMetadata("paramd-caller", caller);
  if (!process_.empty()) context->AddMetadata("paramd-incarnation", process_);
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel_);
  auto reader = stub.PrepareUnaryCall(context, path, bytes, &queue);
  reader->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  reader->Finish(&reply, &status, this);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  if (!status.ok()) return FromGrpcStatus(status);
  return Flatten(reply);
}

struct ManyCalls::State {
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<OpenCall>> open;
  size_t left = 0;
};

ManyCalls::ManyCalls(const std::string& address, const std::string& path,
                     const Options& options)
    : state_(std::make_unique<State>()) {
  const grpc::Slice nothing;
  const grpc::ByteBuffer bytes(&nothing, 1);
  for (int caller = 0; caller < options.callers; ++caller) {
    grpc::GenericStub stub(Connect(address));
    for (int i = 0; i < options.shards * options.calls_each; ++i) {
      auto call = std::make_unique<OpenCall>();
      call->context.AddMetadata("paramd-shard",
                                std::to_string(i % options.shards));
      if (!options.who.empty()) {
        call->context.AddMetadata("paramd-caller", options.who);
        call->context.AddMetadata("paramd-incarnation", options.process);
      }
      call->reader =
          stub.PrepareUnaryCall(&call->context, path, bytes, &state_->queue);
      call->reader->StartCall();
      call->reader->Finish(&call->reply, &call->status, call.get());
      state_->open.push_back(std::move(call));
    }
  }
  state_->left = state_->open.size();
}

ManyCalls::~ManyCalls() {
  for (const auto& call : state_->open) call->context.TryCancel();
  (void)Wait();
}

absl::Status ManyCalls::Wait() {
  absl::Status first;
  void* tag;
  bool ok;
  for (; state_->left > 0; --state_->left) {
    state_->queue.Next(&tag, &ok);
    first.Update(FromGrpcStatus(static_cast<OpenCall*>(tag)->status));
  }
  return first;
}

std::vector<absl::Status> CallAtOnce(const std::string& address,
                                     const std::string& path, int calls,
                                     int enough) {
  constexpr int kCallsPerConnection = 64;
  const grpc::Slice nothing;
  const grpc::ByteBuffer bytes(&nothing, 1);
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<OpenCall>> open;
  std::unique_ptr<grpc::GenericStub> stub;
  for (int i = 0; i < calls; ++i) {
    if (i % kCallsPerConnection == 0) {
      stub = std::make_unique<grpc::GenericStub>(Connect(address));
    }
    auto call = std::make_unique<OpenCall>();
    call->reader = stub->PrepareUnaryCall(&call->context, path, bytes, &queue);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call.get());
    open.push_back(std::move(call));
  }
  std::vector<absl::Status> told;
  void* tag;
  bool ok;
  for (int i = 0; i < calls; ++i) {
    if (i == enough) {
      for (const auto& call : open) call->context.TryCancel();
    }
    queue.Next(&tag, &ok);
    if (i < enough) {
      told.push_back(FromGrpcStatus(static_cast<OpenCall*>(tag)->status));
    }
  }
  return told;
}

}  // namespace paramd
