#ifndef PARAMD_BENCH_HARNESS_REPORT_H_
#define PARAMD_BENCH_HARNESS_REPORT_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "bench/harness/samples.h"

namespace paramd {

// One number of a benchmark, with what it is measured against.
struct Figure {
  // What stands beside the value: another program, or a limit of the machine.
  struct Peer {
    std::string name;
    Samples values;
  };

  std::string metric;  // "push_1mib.cpu_s_per_gb"
  std::string unit;    // "" for a ratio
  Samples values;
  absl::optional<Peer> peer;
};

// What a benchmark says: with --json one object a line (bench, metric, value,
// low, high, unit and, beside a peer, peer, peer_value, ratio), else a table at
// the end. Value and peer_value are medians; `ratio` is that of the medians.
//
// Not thread-safe.
class Report {
 public:
  // Ends the process with 2 and a sentence for an argument that is none of
  // --json, --quick and --only=NAME.
  Report(std::string bench, int argc, char** argv);
  // Ends the table.
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // At most 15 seconds: fewer rounds and sizes.
  bool quick() const { return quick_; }
  // False for a part that --only leaves out.
  bool Wants(const std::string& part) const {
    return only_.empty() || only_ == part;
  }
  void Add(const Figure& figure);
  // For people, on stderr: what is being measured now.
  void Progress(const std::string& what) const;

  static std::string JsonLine(const std::string& bench, const Figure& figure);
  static std::string TableLine(const Figure& figure);

 private:
  const std::string bench_;
  bool json_ = false;
  bool quick_ = false;
  std::string only_;
  std::vector<std::string> table_;
};

}  // namespace paramd

#endif  // PARAMD_BENCH_HARNESS_REPORT_H_
