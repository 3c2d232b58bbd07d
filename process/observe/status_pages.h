#ifndef PARAMD_PROCESS_OBSERVE_STATUS_PAGES_H_
#define PARAMD_PROCESS_OBSERVE_STATUS_PAGES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "process/observe/process_loads.h"
#include "process/terminal/remaining_time.h"
#include "proto/paramd/v1/report.pb.h"

namespace paramd {

// Makes the status page of a cluster from one report after the other: the
// newest one in a few words and figures, and what changed since the first, as
// curves and events.
//
// Bounds: 480 points, of which the oldest are thinned out; 50 events.
// Not thread-safe.
class StatusPages {
 public:
  // `checkpoint_interval`: how often the job is to write one; zero: that does
  // not go by time.
  explicit StatusPages(absl::Duration checkpoint_interval)
      : checkpoint_interval_(checkpoint_interval) {}

  // What was reported at `now`, which is `wall` for people.
  void Add(v1::ClusterReport report, Time now, absl::Time wall);

  // The page, with what came after the point `since`. REQUIRES: a report.
  v1::StatusPage PageAt(Time now, uint64_t since) const;

  // The newest report, and when it was added.
  const absl::optional<v1::ClusterReport>& newest() const { return report_; }
  Time taken() const { return taken_; }

 private:
  // What the report before said.
  struct Before {
    struct Process {
      std::string state;
      std::string generation;
    };
    // Of each process that ever answered, by its name: blocks by staleness.
    std::map<std::string, std::vector<uint64_t>> staleness;
    std::map<std::string, Process> processes;
    v1::JobStats job;
    // The newest that each process told, by its name.
    std::map<std::string, uint64_t> operator_calls;
  };

  void AddPoint(const v1::ClusterReport& report, absl::Time wall);
  void AddEvents(const v1::ClusterReport& report, absl::Time wall);
  void AddOperatorCalls(const v1::ProcessAnswer& answer, Before* now);
  void AddEvent(absl::Time wall, v1::StatusPage::Level level, std::string text);
  void FillVerdict(v1::StatusPage* page) const;
  void FillFigures(v1::StatusPage* page) const;

  const absl::Duration checkpoint_interval_;
  absl::optional<v1::ClusterReport> report_;
  Time taken_;
  absl::optional<Before> before_;
  std::deque<v1::StatusPage::Point> points_;
  std::deque<v1::StatusPage::Event> events_;
  uint64_t newest_point_ = 0;
  uint64_t newest_event_ = 0;
  ProcessLoads loads_;
  RemainingTime remaining_;
  absl::optional<absl::Duration> left_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_STATUS_PAGES_H_
