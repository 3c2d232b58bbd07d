#ifndef PARAMD_CLI_LOCAL_KILL_PLAN_H_
#define PARAMD_CLI_LOCAL_KILL_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Which processes of a cluster are to be killed, and in which epoch: so that
// people see what a lost process costs.
//
//   "worker-1@epoch=3,ps-0@epoch=4"
//
// Not thread-safe.
class KillPlan {
 public:
  struct Kill {
    std::string task;
    uint32_t epoch = 1;  // Counts from 1, as people do.
  };
  // What there is to be killed.
  struct Cluster {
    int servers = 0;
    int workers = 0;
    int stages = 0;
    uint32_t epochs = 0;
  };

  // Nobody is killed.
  KillPlan() = default;
  // InvalidArgument for what is not of the form above, a task that the cluster
  // does not have, or an epoch that the job does not have, naming it.
  static absl::StatusOr<KillPlan> Parse(absl::string_view text,
                                        const Cluster& cluster);

  // Those whose epoch has begun, `epochs_done` being how many are used up,
  // fractions included.
  std::vector<Kill> Due(double epochs_done) const;
  // It was carried out.
  void Remove(const Kill& kill);
  // What is still to come.
  const std::vector<Kill>& left() const { return kills_; }

 private:
  std::vector<Kill> kills_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_LOCAL_KILL_PLAN_H_
