#ifndef PARAMD_CONFIG_MISTAKES_H_
#define PARAMD_CONFIG_MISTAKES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Where a value was written: a file's line, or a flag or variable as a whole.
struct Place {
  std::string source;  // "job.json", "--set", "PARAMD_EPOCHS", "TF_CONFIG"
  int line = 0;        // from 1; 0: the source has no lines worth naming

  // "job.json:3", "--set".
  std::string ToString() const;
};

// Everything that is wrong with a configuration, so that all of it is said at
// once. Invariant: at most kMost mistakes are kept; the rest is counted.
//
// Not thread-safe.
class Mistakes {
 public:
  static constexpr int kMost = 50;

  // `path` is the key path ("optimizer.learning_rate"); empty: the whole.
  // `sentence` is lower case, has no full stop and says what to do.
  void Add(const Place& place, absl::string_view path,
           absl::string_view sentence);

  bool empty() const { return entries_.empty(); }

  // Whether the value at `path`, or anything inside it, is already known to
  // be wrong: what follows from that need not be said again.
  bool HasUnder(absl::string_view path) const;

  // Whether the value at `path` itself is known to be wrong.
  bool HasAt(absl::string_view path) const;

  // OK if there are none; else InvalidArgument with one line per mistake,
  // "place: key.path: sentence", by source in the order they came, and by
  // line.
  absl::Status ToStatus() const;

 private:
  struct Entry {
    Place place;
    std::string path;
    std::string sentence;
  };

  std::vector<Entry> entries_;
  int more_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CONFIG_MISTAKES_H_
