#ifndef PARAMD_PROCESS_TESTING_FAKE_PROCESS_H_
#define PARAMD_PROCESS_TESTING_FAKE_PROCESS_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// A process that answers every call with the same status until it is
// destroyed. Its thread is its own.
class FakeProcess {
 public:
  explicit FakeProcess(v1::StatusReply reply);
  ~FakeProcess();
  FakeProcess(const FakeProcess&) = delete;
  FakeProcess& operator=(const FakeProcess&) = delete;

  // On 127.0.0.1.
  std::string address() const;

 private:
  struct Call;

  void Accept();
  void Serve();

  const v1::StatusReply reply_;
  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;  // Nothing is asked of a server that is shut down.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_TESTING_FAKE_PROCESS_H_
