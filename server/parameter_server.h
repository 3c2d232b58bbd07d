#ifndef PARAMD_SERVER_PARAMETER_SERVER_H_
#define PARAMD_SERVER_PARAMETER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "base/chrome_trace.h"
#include "checkpoint/own_directories.h"
#include "net/runtime.h"
#include "server/core/shard.h"

namespace paramd {

// A parameter server of this process: its shards joined to the runtime, for
// each a thread that writes and reads its checkpoint files, and its share of
// the status. One shard lives on the runtime's thread; of several each has a
// thread of its own. To everybody else each shard is a server.
//
// Thread safety: made and destroyed on the thread that runs the runtime, while
// it does not run. Outlives Runtime::Run; the destructor waits for the files
// that are being written.
//
//   ParameterServer server(
//       {{.index = 0, .incarnation = id, .life_seed = seed}},
//       {.checkpoint_directory = "run/checkpoints"}, runtime.get());
//   return runtime->Run();
class ParameterServer {
 public:
  // Registers everything with `runtime`; at most one server a runtime.
  // `shards`: of each, at least one, their indices in a row. `settings`: of
  // this process; files that lie elsewhere are nobody's to name. Where it has
  // no checkpoint_directory, its files go through the chief. `trace`, which may
  // be null and outlives it, can record what its shards do.
  ParameterServer(const std::vector<Shard::Options>& shards,
                  const OwnDirectories::Settings& settings, Runtime* runtime,
                  ChromeTrace* trace = nullptr);
  ~ParameterServer();
  // Of the content of all its shards: equal contents, equally divided, have
  // equal ones. REQUIRES: on the runtime's thread.
  uint32_t Checksum() const;
  // Its servers were handed over to others, and the job goes on. REQUIRES: the
  // runtime does not run.
  bool was_drained() const;
  // It was to hand them over, and one of them lost its backup before that: the
  // job waits for it to be started again. REQUIRES: the runtime does not run.
  bool is_missed() const;
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

 private:
  class Part;

  void FillStatus(v1::StatusReply* status) const;

  const OwnDirectories directories_;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_PARAMETER_SERVER_H_
