#ifndef PARAMD_BENCH_OVERHEAD_PROCESS_CLUSTER_H_
#define PARAMD_BENCH_OVERHEAD_PROCESS_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "base/time.h"
#include "cli/local/child_process.h"

namespace paramd {

// Takes this process, and those that it starts from now on, into a network of
// their own, which has a loopback and nothing else. False if the machine does
// not let it. REQUIRES: it is the process's only thread.
bool EnterOwnNetwork();

// The processes of one job, from the constructor to the destructor, which kills
// them. A process that cannot be started, or a job that does not get on, ends
// the program with a sentence.
//
// Not thread-safe.
class ProcessCluster {
 public:
  struct Options {
    std::string program;  // sleeping_paramd
    std::string job;      // The text of the job file; it goes on without end.
    uint32_t servers = 0;
    uint32_t workers = 1;
    std::vector<std::string> environment;  // "NAME=value", all of it.
  };

  explicit ProcessCluster(const Options& options);
  ~ProcessCluster();
  ProcessCluster(const ProcessCluster&) = delete;
  ProcessCluster& operator=(const ProcessCluster&) = delete;

  struct Cost {  // Of a step.
    double seconds = 0;
    double cpu_seconds = 0;  // Of all processes.
    double bytes = 0;        // That went over this network's loopback.
  };
  // From step to step, over at least `window`.
  Cost Measure(absl::Duration window);

 private:
  struct Sample {
    uint64_t steps = 0;
    Time time;
    double cpu_seconds = 0;
    double bytes = 0;
  };

  void Start(const Options& options, const std::string& type, uint32_t index);
  // As the chief begins the next step that is at least number `least`.
  Sample NextStep(uint64_t least);

  std::string directory_;
  std::vector<std::string> servers_;  // Addresses.
  std::vector<std::string> workers_;
  std::vector<ChildProcess> children_;
};

}  // namespace paramd

#endif  // PARAMD_BENCH_OVERHEAD_PROCESS_CLUSTER_H_
