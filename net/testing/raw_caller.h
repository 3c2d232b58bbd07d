#ifndef PARAMD_NET_TESTING_RAW_CALLER_H_
#define PARAMD_NET_TESTING_RAW_CALLER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"

namespace paramd {

// Calls a process as a stranger might: any method, any caller, any bytes, on
// one connection. Blocks until the answer is there. Not thread-safe.
class RawCaller {
 public:
  explicit RawCaller(const std::string& address);

  // The bytes of the answer, or its status with a Refusal if it carries one.
  // `caller` empty: says nothing about itself.
  absl::StatusOr<std::string> Call(const std::string& path,
                                   const std::string& caller,
                                   const std::string& request);

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

// Makes `calls` empty calls of a method at once, 64 to a connection, waits
// until `enough` of them have failed or been answered, and cancels the others.
// What those `enough` were told.
std::vector<absl::Status> CallAtOnce(const std::string& address,
                                     const std::string& path, int calls,
                                     int enough);

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_RAW_CALLER_H_
