#include "net/testing/raw_caller.h"

#include <chrono>

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

}  // namespace

RawCaller::RawCaller(const std::string& address) {
  grpc::ChannelArguments args;
  args.SetInt("grpc.use_local_subchannel_pool", 1);
  args.SetMaxReceiveMessageSize(-1);
  channel_ = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), args);
}

absl::StatusOr<std::string> RawCaller::Call(const std::string& path,
                                            const std::string& caller,
                                            const std::string& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  if (!caller.empty()) context.AddMetadata("paramd-caller", caller);
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel_);
  auto reader = stub.PrepareUnaryCall(&context, path, bytes, &queue);
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

}  // namespace paramd
