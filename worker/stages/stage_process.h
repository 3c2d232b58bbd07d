#ifndef PARAMD_WORKER_STAGES_STAGE_PROCESS_H_
#define PARAMD_WORKER_STAGES_STAGE_PROCESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/worker_thread.h"
#include "net/runtime.h"
#include "proto/paramd/v1/stage.pb.h"
#include "worker/stages/stage_computer.h"
#include "worker/stages/stage_core.h"

namespace paramd {

// A task of type stage as a process has it: its core, and for each lane a
// thread that computes.
//
// Thread safety: made, added and destroyed on one thread, while the runtime
// does not run. Outlives the runtime's Run; the destructor waits for the
// operations that are being computed.
class StageProcess {
 public:
  StageProcess(const StageCore::Options& options, MakeStages make);

  // Adds the core and does its work.
  void AddTo(Runtime* runtime);

 private:
  struct Lane {
    Lane(const std::string& name, const MakeStages& make)
        : computer(name, make), thread("stage") {}

    StageComputer computer;
    WorkerThread thread;  // Last: ends before what it uses.
  };

  const uint32_t index_;
  const MakeStages make_;
  StageCore core_;
  // Of the loop thread. Bound: StageCore::kMostLanes.
  std::map<uint32_t, std::unique_ptr<Lane>> lanes_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_PROCESS_H_
