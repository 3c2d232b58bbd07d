#ifndef PARAMD_TESTS_SIM_CUT_WORKLOAD_H_
#define PARAMD_TESTS_SIM_CUT_WORKLOAD_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/types/optional.h"

#include "tests/sim/fine_cut.h"
#include "tests/sim/model_cluster.h"
#include "tests/sim/model_job.h"
#include "tests/sim/workload_report.h"

namespace paramd {

// A job in sync mode that is cut off, every process at once, at any moment of
// its life, and goes on from its newest checkpoint on a number of servers of
// its own: what it comes to must be what it comes to uninterrupted, bit for
// bit: values, the optimizer's slots, the steps that each block has applied
// and, from its 50th on, its running gradient.
//
// In every third seed most blocks never change, and checkpoints have bases;
// then slices are cut at other rows after the cut, mostly, and half of the
// time blocks are as well. The seed draws 1 to 3 workers, 1 to 3 servers before
// the cut and as many after it, how often there is a checkpoint, the network,
// and the cut: one of the moments of that job at which a process acts.
//
// Not thread-safe.
class CutWorkload {
 public:
  // 6 epochs of 29 batches, of each step as many as there are workers.
  CutWorkload() : CutWorkload(/*epochs=*/6) {}
  explicit CutWorkload(uint32_t epochs);

  // kDataLoss if something is other than uninterrupted; what the simulation
  // fails with.
  WorkloadReport Run(uint64_t seed, bool verbose);

  // Of the runs so far: those that went on from a checkpoint, and those of
  // these that did on another number of servers.
  uint64_t restored() const { return restored_; }
  uint64_t moved() const { return moved_; }
  // And those that did in other slices than those that were saved.
  uint64_t recut() const { return recut_; }
  // And those that did from a checkpoint whose files have a base.
  uint64_t based() const { return based_; }
  // And those that did when running gradients are kept.
  uint64_t warm() const { return warm_; }

 private:
  struct Uninterrupted {
    TrainedWeights weights;
    std::map<std::string, std::string> counts;
  };
  struct Draw {
    uint32_t workers;
    uint32_t servers_before;
    uint32_t servers_after;
    uint64_t every_steps;
    uint64_t seed;
    uint32_t incremental;  // As checkpoint.incremental. 0: no bases.
    // Bytes of a slice. 0: as in production.
    uint64_t slices_before = 0;
    uint64_t slices_after = 0;
  };
  // Until all have ended, or after moment `cut`, if that is not 0.
  struct Life {
    uint64_t cut = 0;
    uint64_t seed = 0;
    bool verbose = false;
  };

  static Draw DrawFrom(uint64_t seed, RandomStream* random);
  ModelJob JobOf(const Draw& draw, uint32_t servers) const;
  // With slices of so many bytes.
  const Uninterrupted& ExpectedOf(const Draw& draw, uint64_t slices);
  static absl::optional<FineCut> CutInto(uint64_t slice_bytes);
  // Of an uninterrupted life, about.
  uint64_t MomentsOf(const Draw& draw);
  // Runs one life of the cluster; how many moments it had.
  absl::StatusOr<uint64_t> Live(const ModelJob& job, const Life& life,
                                ModelCluster* cluster, WorkloadReport* report);

  const uint32_t epochs_;
  // By workers, and bytes of a slice.
  std::map<std::pair<uint32_t, uint64_t>, Uninterrupted> expected_;
  std::map<std::tuple<uint32_t, uint32_t, uint64_t, uint32_t, uint64_t>,
           uint64_t>
      moments_;
  uint64_t restored_ = 0;
  uint64_t moved_ = 0;
  uint64_t recut_ = 0;
  uint64_t based_ = 0;
  uint64_t warm_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_CUT_WORKLOAD_H_
