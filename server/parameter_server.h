#ifndef PARAMD_SERVER_PARAMETER_SERVER_H_
#define PARAMD_SERVER_PARAMETER_SERVER_H_

#include <string>

#include "checkpoint/restore_reader.h"
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
//                          /*checkpoint_directory=*/"", runtime.get());
//   return runtime->Run();
class ParameterServer {
 public:
  // Registers everything with `runtime`; at most one server a runtime.
  // `checkpoint_directory`: where this process has the directory in which the
  // chief keeps checkpoints; empty or relative: under the chief's path.
  ParameterServer(const Shard::Options& options,
                  std::string checkpoint_directory, Runtime* runtime);
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

 private:
  const std::string checkpoint_directory_;
  Shard shard_;
  RestoreReader restore_;  // Of files_.
  WorkerThread files_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_PARAMETER_SERVER_H_
