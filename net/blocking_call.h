#ifndef PARAMD_NET_BLOCKING_CALL_H_
#define PARAMD_NET_BLOCKING_CALL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"

#include "net/wire_message.h"
#include "tensor/message.h"

namespace paramd {

// A connection to one process, for a thread that waits for each answer. It says
// no Hello, so it is only for calls that are for the process itself. Without
// TLS.
//
// Not thread-safe.
class BlockingCaller {
 public:
  BlockingCaller(PeerId self, const std::string& address);

  // Waits for the answer, `deadline` at most. The refusal of whoever answers,
  // or UNAVAILABLE with whose and why in a few words: "10.0.0.7:7077: refused".
  // REQUIRES: a method takes such a request.
  absl::StatusOr<WireMessage> Call(const google::protobuf::Message& request,
                                   absl::Duration deadline);

 private:
  const PeerId self_;
  const std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

}  // namespace paramd

#endif  // PARAMD_NET_BLOCKING_CALL_H_
