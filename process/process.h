#ifndef PARAMD_PROCESS_PROCESS_H_
#define PARAMD_PROCESS_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "base/chrome_trace.h"
#include "config/job_config.h"
#include "coordinator/coordinator_process.h"
#include "coordinator/core/server_places.h"
#include "coordinator/election/chief_election.h"
#include "coordinator/failure_note.h"
#include "net/runtime.h"
#include "server/core/optimizer_kernels.h"
#include "server/device/cuda_loops.h"
#include "server/parameter_server.h"
#include "tensor/disk_memory.h"
#include "worker/collective/gradient_exchange.h"
#include "worker/evaluator/evaluator_process.h"
#include "worker/input_scanner.h"
#include "worker/stages/remote_stages.h"
#include "worker/stages/stage_calls.h"
#include "worker/stages/stage_process.h"
#include "worker/worker_process.h"

namespace paramd {

// Which tasks one process is, and of how many there are.
struct ProcessRole {
  // The ps task; its servers are server * shards and the next ones.
  absl::optional<uint32_t> server;
  absl::optional<uint32_t> worker;  // Worker 0 is the chief and coordinates.
  absl::optional<uint32_t> evaluator;
  // Of the pipeline of worker `stage / stages_of_a_worker`.
  absl::optional<uint32_t> stage;
  uint32_t stages_of_a_worker = 0;  // In processes of their own.
  uint32_t servers = 1;             // Of all ps tasks together.
  uint32_t workers = 1;
  uint32_t shards = 1;  // Servers of each ps task.
  // With replication each of them has a place in another task too: 2.
  uint32_t replication = 1;
  // The number of ps may change: each server has a place in every task.
  bool scalable = false;
  // Places of each server, of a ps task, and of all tasks together.
  uint32_t places_each() const {
    // A worker that joins is told of no server at first.
    return scalable && servers > 0 ? servers / shards : replication;
  }
  uint32_t places() const { return shards * places_each(); }
  uint32_t all_places() const { return servers * places_each(); }
  // Of a whole job that is one of several, with a copy of the variables each:
  // which one, in place of what is above.
  absl::optional<uint32_t> member;
  // Which process of its task this is, and which one, known to have ended, was
  // the one before; 0: nobody knows.
  uint64_t incarnation = 0;
  uint64_t replaces = 0;

  // Of a worker that the cluster does not name: the chief gave it its index,
  // and `workers` are those that the cluster names. `address`: where it
  // listens; empty: nowhere.
  bool joined = false;
  std::string address;
  // Where each ps is, for workers that join. Empty: this process is not told.
  std::vector<std::string> ps_addresses;

  bool is_chief() const { return worker.has_value() && *worker == 0; }
  // Of several copies the first one has the run that people see.
  bool keeps_a_run() const { return is_chief() && member.value_or(0) == 0; }
};

// What gradients are applied with; null where this machine does not have them.
const OptimizerKernels* KernelsFor(v1::JobConfig::Cpu cpu);

// The parts that do the work of a role: a server's shard, a worker with its
// data and model, the coordinator, an evaluator, stages. Data and directories
// are opened by Create, so that everything wrong with them is said before a
// port is bound.
//
// Thread safety: Create, AddTo and the destructor on the thread that runs the
// runtime, while it does not run. Outlives Runtime::Run.
class Process {
 public:
  // The errors of the parts, each naming the file, layer or directory.
  // `trace_path`: where a worker writes a ChromeTrace of all that it did at the
  // end of Run; empty: nowhere. `membership`: of a worker that is one of
  // several with a copy of the variables each. `loops`: of a process with all
  // of a job, on a GPU.
  static absl::StatusOr<std::unique_ptr<Process>> Create(
      const ProcessRole& role, const LoadedJob& job, const ModelFactory& models,
      const std::string& trace_path = "", const Membership& membership = {},
      const MakeLoopDevice& loops = MakeCudaLoops);

  // Of a chief that is elected, once it is: Create leaves the coordinator out.
  // `election` outlives this. Errors as of Create. REQUIRES: IsElected().
  absl::Status LeadBy(ChiefElection* election);
  // It is the chief only if it is elected.
  bool IsElected() const {
    return role_.is_chief() && !job_.config.chief_election().empty();
  }

  // Called once.
  void AddTo(Runtime* runtime);

  // Of the variables and slots that a server in this process has, while
  // `runtime` runs; 0 before and after that. On any other thread.
  uint32_t Checksum(Runtime* runtime) const;

  // Of the variables' names, shapes and initializers. REQUIRES: it is a worker.
  uint32_t ModelChecksum() const;
  // What it trains on. REQUIRES: it is a worker.
  const v1::DataSet& TrainingData() const { return worker_->data(); }
  // TrainedModel's. REQUIRES: it is a worker.
  std::string ModelsDevice() const { return worker_->device(); }
  // An end of a ring of that device: as WorkerProcess::OpenRing.
  absl::StatusOr<std::unique_ptr<DeviceRing>> OpenRing() {
    return worker_->OpenRing();
  }

  // Of what its parts do. A recording of it ends before this does.
  ChromeTrace* trace() const { return trace_.get(); }

  // As ParameterServer::was_drained; false without servers.
  bool was_drained() const {
    return server_ != nullptr && server_->was_drained();
  }
  // As ParameterServer::is_missed; false without servers.
  bool is_missed() const { return server_ != nullptr && server_->is_missed(); }

  // The runtime's Run. A chief says meanwhile that it is alive, and stops the
  // runtime with ALREADY_EXISTS if another one has taken over: one that was
  // elected with UNAVAILABLE, so that it is started again and stands by. At the
  // end it resigns.
  absl::Status Run(Runtime* runtime);

 private:
  Process(const ProcessRole& role, const LoadedJob& job,
          const Membership& membership);

  absl::Status CreateTrace();
  absl::Status CreateWorker(const ModelFactory& models,
                            const MakeLoopDevice& loops);
  // The model of a worker whose first stages are elsewhere.
  ModelFactory ModelsWithStages();
  void CreateStage();
  absl::Status CreateCoordinator();
  // Of a model that brings them.
  absl::Status WriteInitialValuesFor(Coordinator::Options* options) const;
  // Where a server's rows lie that need not lie in memory.
  absl::Status OpenDisks();
  void CreateServer(Runtime* runtime);
  // With replication, of all servers.
  std::vector<ServerPlaces> Places() const;
  absl::Status RunParts(Runtime* runtime);
  absl::Status Coordinate(Runtime* runtime);
  void WriteTrace() const;
  // Of a job that has finished.
  void RemoveBackup() const;
  // Of one that has failed.
  void NoteFailure(const FailureNote& note, const absl::Status& why) const;

  const ProcessRole role_;
  const LoadedJob job_;
  const Membership membership_;
  std::string trace_path_;
  std::unique_ptr<ChromeTrace> trace_;
  // Null: all stages of the worker's model are here. Both outlive the worker.
  std::unique_ptr<StageCalls> stage_calls_;
  std::shared_ptr<RemoteStages> remote_stages_;
  std::unique_ptr<WorkerProcess> worker_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  ChiefElection* election_ = nullptr;      // Null: nobody is elected.
  std::unique_ptr<InputScanner> scanner_;  // Of a chief whose input grows.
  std::vector<std::shared_ptr<DiskMemory>> disks_;  // One a shard, or none.
  // Where the server's arrays lie, the worker's too; null: in host memory.
  std::shared_ptr<LoopDevice> loops_;
  OptimizerKernels kernels_ = MachineKernels();
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<EvaluatorProcess> evaluator_;
  std::unique_ptr<StageProcess> stage_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_PROCESS_H_
