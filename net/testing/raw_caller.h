#ifndef PARAMD_NET_TESTING_RAW_CALLER_H_
#define PARAMD_NET_TESTING_RAW_CALLER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/credentials.h"

namespace paramd {

// Calls a process as a stranger might: any method, any caller, any bytes, on
// one connection. Blocks until the answer is there. Not thread-safe.
class RawCaller {
 public:
  // `process`: which one it means, as ProcessText; empty: it does not say.
  // `credentials` null: without TLS.
  explicit RawCaller(
      const std::string& address, std::string process = "",
      std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr);

  // The bytes of the answer, or its status with a Refusal if it carries one.
  // `caller` empty: says nothing about itself.
  absl::StatusOr<std::string> Call(const std::string& path,
                                   const std::string& caller,
                                   const std::string& request);
  // The same, in a message that is compressed with gzip.
  absl::StatusOr<std::string> CallCompressed(const std::string& path,
                                             const std::string& caller,
                                             const std::string& request);

 private:
  absl::StatusOr<std::string> Finish(const std::string& path,
                                     const std::string& caller,
                                     const std::string& request,
                                     grpc::ClientContext* context);

  std::shared_ptr<grpc::Channel> channel_;
  const std::string process_;
};

// Empty calls of many callers at once: each has a connection of its own, and on
// it so many calls to each shard. Not thread-safe.
class ManyCalls {
 public:
  struct Options {
    int callers = 1;
    int shards = 1;
    int calls_each = 1;
    std::string who;  // As RawCaller's `caller` and `process`.
    std::string process;
  };

  ManyCalls(const std::string& address, const std::string& path,
            const Options& options);
  // Those that are not answered are cancelled.
  ~ManyCalls();

  // Waits until all are answered; what the first of them that failed was told.
  absl::Status Wait();

 private:
  struct State;

  const std::unique_ptr<State> state_;
};

// Makes `calls` empty calls of a method at once, 64 to a connection, waits
// until `enough` of them have failed or been answered, and cancels the others.
// What those `enough` were told.
std::vector<absl::Status> CallAtOnce(const std::string& address,
                                     const std::string& path, int calls,
                                     int enough);

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_RAW_CALLER_H_
