#ifndef PARAMD_NET_TESTING_RAW_STREAM_H_
#define PARAMD_NET_TESTING_RAW_STREAM_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "google/protobuf/message.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"

namespace paramd {

// One call with messages both ways, on a connection of its own, as a stranger
// makes it. Every method blocks until it is done. Not thread-safe.
class RawStream {
 public:
  RawStream(const std::string& address, const std::string& path);
  // Cancels the call if it is not over.
  ~RawStream();

  // False if the call is over.
  bool Send(const std::string& message);
  bool Send(const google::protobuf::Message& message) {
    return Send(message.SerializeAsString());
  }
  void HalfClose();
  // The next message; nullopt: there is none any more.
  absl::optional<std::string> Read();
  // The next message; empty if there is none, or it is no Message.
  template <typename Message>
  Message ReadAs() {
    Message message;
    const auto bytes = Read();
    if (bytes.has_value()) message.ParseFromString(*bytes);
    return message;
  }
  // How the call ended. REQUIRES: called once, after Read has said nullopt.
  absl::Status Finish();

 private:
  bool Wait();

  std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_RAW_STREAM_H_
