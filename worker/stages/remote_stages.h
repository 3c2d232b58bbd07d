#ifndef PARAMD_WORKER_STAGES_REMOTE_STAGES_H_
#define PARAMD_WORKER_STAGES_REMOTE_STAGES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "compute/pipeline/model_stage.h"
#include "input/batch.h"
#include "worker/stages/stage_calls.h"

namespace paramd {

// The stages of a worker's model that tasks of type stage compute: task
// `first + d` those of device d.
//
// A stage gets the weights of its layers when a mini-batch begins, then of each
// micro-batch what it needs, and gives the sums of its gradients at the end. So
// nothing is lost with its process but the mini-batch, which has the same bits
// when it is computed again.
class RemoteStages : public StagesElsewhere {
 public:
  struct Options {
    uint32_t worker = 0;
    uint64_t incarnation = 0;
    std::string build;  // Of this program, which theirs must be.
    uint32_t first = 0;
    uint32_t count = 0;
    // How long one that does not answer is waited for.
    absl::Duration patience;
    // Layers read features by their names: then each stage may. Otherwise the
    // first one alone reads the input.
    bool names_features = false;
  };

  // `calls` outlives this, and is closed before what it makes is destroyed.
  RemoteStages(Options options, StageCalls* calls)
      : options_(std::move(options)), calls_(*calls) {}

  // Of the examples that the model is made for. Before OpenLane.
  void SetInput(const InputSpec& input) { input_ = input; }

  uint32_t devices() const override { return options_.count; }
  std::unique_ptr<StageLane> OpenLane() override;

 private:
  const Options options_;
  StageCalls& calls_;
  InputSpec input_;
  std::atomic<uint32_t> lanes_{0};
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_REMOTE_STAGES_H_
