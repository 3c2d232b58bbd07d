#include "net/testing/raw_stream.h"

#include <chrono>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/channel_arguments.h"

#include "net/grpc_status.h"

namespace paramd {

RawStream::RawStream(const std::string& address, const std::string& path) {
  grpc::ChannelArguments args;
  args.SetInt("grpc.use_local_subchannel_pool", 1);
  channel_ = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), args);
  context_.set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(60));
  call_ = grpc::GenericStub(channel_).PrepareCall(&context_, path, &queue_);
  call_->StartCall(this);
  Wait();
}

RawStream::~RawStream() {
  if (!finished_) {
    context_.TryCancel();
    (void)Finish();
  }
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool RawStream::Send(const std::string& message) {
  const grpc::Slice slice(message);
  call_->Write(grpc::ByteBuffer(&slice, 1), this);
  return Wait();
}

void RawStream::HalfClose() {
  call_->WritesDone(this);
  Wait();
}

absl::optional<std::string> RawStream::Read() {
  grpc::ByteBuffer bytes;
  call_->Read(&bytes, this);
  if (!Wait()) return absl::nullopt;
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return absl::nullopt;
  return std::string(reinterpret_cast<const char*>(slice.begin()),
                     slice.size());
}

absl::Status RawStream::Finish() {
  finished_ = true;
  grpc::Status status;
  call_->Finish(&status, this);
  Wait();
  return FromGrpcStatus(status);
}

bool RawStream::Wait() {
  void* tag;
  bool ok = false;
  queue_.Next(&tag, &ok);
  return ok;
}

}  // namespace paramd
