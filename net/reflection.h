#ifndef PARAMD_NET_REFLECTION_H_
#define PARAMD_NET_REFLECTION_H_

#include <functional>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

#include "net/stream_server.h"

namespace paramd {

// grpc.reflection v1 and v1alpha: lets anybody list the services and learn
// their messages, so that a tool such as grpcurl calls them without having the
// .proto files. The descriptors are those of the program. Lists services, finds
// files by name and by symbol; what is not there is NOT_FOUND, questions about
// extensions are UNIMPLEMENTED, both as an error_response: the call goes on.
//
// Not thread-safe: lives on the loop thread. Outlives the calls of the server
// that it is added to.
class Reflection {
 public:
  using IsServed =
      std::function<bool(const google::protobuf::ServiceDescriptor*)>;

  // Lists those services of `files` that `is_served` says, and its own.
  Reflection(std::vector<const google::protobuf::FileDescriptor*> files,
             IsServed is_served);

  void AddTo(StreamServer* server);

 private:
  class Call;

  std::vector<std::string> Services() const;

  std::vector<const google::protobuf::FileDescriptor*> files_;
  const IsServed is_served_;
};

}  // namespace paramd

#endif  // PARAMD_NET_REFLECTION_H_
