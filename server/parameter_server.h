#ifndef PARAMD_SERVER_PARAMETER_SERVER_H_
#define PARAMD_SERVER_PARAMETER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "net/runtime.h"
#include "server/core/shard.h"

namespace paramd {

// A parameter server of this process: its shards joined to the runtime, for each
// a thread that writes and reads its checkpoint files, and its share of the
// status. One shard lives on the runtime's thread; of several each has a thread
// of its own. To everybody else each shard is a server.
//
// Thread safety: made and destroyed on the thread that runs the runtime, while
// it does not run. Outlives Runtime::Run; the destructor waits for the files
// that are being written.
//
//   ParameterServer server({{.index = 0, .incarnation = id, .life_seed = seed}},
//                          /*checkpoint_directory=*/"", runtime.get());
//   return runtime->Run();
class ParameterServer {
 public:
  // Registers everything with `runtime`; at most one server a runtime.
  // `shards`: of each, at least one, their indices in a row.
  // `checkpoint_directory`: where this process has the directory in which the
  // chief keeps checkpoints; empty or relative: under the chief's path.
  ParameterServer(const std::vector<Shard::Options>& shards,
                  const std::string& checkpoint_directory, Runtime* runtime);
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

 private:
  class Part;

  void FillStatus(v1::StatusReply* status) const;

  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_PARAMETER_SERVER_H_
