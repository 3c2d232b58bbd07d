#ifndef PARAMD_SERVER_PARAMETER_SERVER_H_
#define PARAMD_SERVER_PARAMETER_SERVER_H_

#include "net/runtime.h"
#include "net/worker_thread.h"
#include "server/core/shard.h"

namespace paramd {

// A parameter server of this process: a Shard joined to the runtime, a thread
// that writes and reads its checkpoint files, and its share of the status.
//
// Thread safety: made and destroyed on the thread that runs the runtime, while
// it does not run. Outlives Runtime::Run; the destructor waits for the file
// that is being written.
//
//   ParameterServer server({.index = 0, .incarnation = id, .life_seed = seed},
//                          runtime.get());
//   return runtime->Run();
class ParameterServer {
 public:
  // Registers everything with `runtime`; at most one server a runtime.
  ParameterServer(const Shard::Options& options, Runtime* runtime);
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

 private:
  Shard shard_;
  WorkerThread files_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_PARAMETER_SERVER_H_
