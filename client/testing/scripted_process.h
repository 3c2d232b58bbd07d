#ifndef PARAMD_CLIENT_TESTING_SCRIPTED_PROCESS_H_
#define PARAMD_CLIENT_TESTING_SCRIPTED_PROCESS_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

#include "base/mutex.h"

namespace paramd {

// A process that answers each call as `answer` says, until it is destroyed. Its
// thread, on which that is called, is its own.
class ScriptedProcess {
 public:
  struct Call {
    std::string method;  // "/paramd.v1.Control/Status"
    std::string shard;   // Empty: not said.
    std::string request;
  };
  // The bytes of the reply, or what the call fails with.
  using Answer = std::function<absl::StatusOr<std::string>(const Call&)>;

  // `also_at`: "unix:/run/worker-0.sock", where it takes calls too.
  explicit ScriptedProcess(Answer answer, const std::string& also_at = "");
  ~ScriptedProcess();
  ScriptedProcess(const ScriptedProcess&) = delete;
  ScriptedProcess& operator=(const ScriptedProcess&) = delete;

  // On 127.0.0.1.
  std::string address() const;

 private:
  struct Open;

  void Accept();
  void Serve();
  void Reply(Open* open);

  const Answer answer_;
  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;  // Nothing is asked of a server that is shut down.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_TESTING_SCRIPTED_PROCESS_H_
