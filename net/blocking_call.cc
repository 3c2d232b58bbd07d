#include "net/blocking_call.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

#include "base/check.h"
#include "net/caller.h"
#include "net/grpc_status.h"
#include "net/method_table.h"
#include "net/unreached.h"

namespace paramd {
namespace {

// One that is started again is heard at once.
constexpr int kReconnectMs = 50;

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2 * kReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMostBulkBytes));
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", address),
                                   grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

BlockingCaller::BlockingCaller(PeerId self, const std::string& address)
    : self_(self),
      address_(address),
      channel_(ChannelTo(address)),
      stub_(std::make_unique<grpc::GenericStub>(channel_)) {}

absl::StatusOr<WireMessage> BlockingCaller::Call(
    const google::protobuf::Message& request, absl::Duration deadline) {
  const Method* const method =
      MethodTable::Get().OfRequest(request.GetDescriptor());
  CHECK(method != nullptr, "a method takes such a request");
  grpc::ClientContext context;
  context.AddMetadata(kCallerKey, CallerText(self_));
  context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
  grpc::CompletionQueue queue;
  const auto reader = stub_->PrepareUnaryCall(
      &context, method->path, EncodeMessage(request, {}), &queue);
  reader->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  reader->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (status.ok()) return DecodeMessage(reply, *method->reply);
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return absl::UnavailableError(
        absl::StrCat(address_, ": ", WhyUnreached(status.error_message())));
  }
  return FromGrpcStatus(status);
}

}  // namespace paramd
