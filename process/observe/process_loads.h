#ifndef PARAMD_PROCESS_OBSERVE_PROCESS_LOADS_H_
#define PARAMD_PROCESS_OBSERVE_PROCESS_LOADS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/types/optional.h"

#include "proto/paramd/v1/report.pb.h"

namespace paramd {

// What the processes of a cluster spent their time on between the newest two
// reports, and how many bytes they took and gave. Bound: the processes of two
// reports. Not thread-safe.
class ProcessLoads {
 public:
  void Add(const v1::ClusterReport& report);

  // The load of the process of this name (ProcessRow), as far as it is known:
  // not of one that has begun or did not answer since the report before.
  // `process` has its state.
  void Fill(v1::StatusPage::Process* process) const;

 private:
  // As a process counts since it began.
  struct Counts {
    uint64_t incarnation = 0;
    uint64_t uptime_ms = 0;
    uint64_t processor_ms = 0;
    uint64_t bytes = 0;
    double input_wait = 0;
    double input_elapsed = 0;
  };
  struct Load {
    float busy_percent = 0;
    float bytes_per_second = 0;
    absl::optional<float> input_wait_percent;
  };

  static Counts CountsOf(const v1::StatusReply& status);
  // Nullopt: not of one life, or nothing has passed.
  static absl::optional<Load> LoadBetween(const Counts& was, const Counts& is);

  std::map<std::string, Counts> counts_;
  std::map<std::string, Load> loads_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_PROCESS_LOADS_H_
