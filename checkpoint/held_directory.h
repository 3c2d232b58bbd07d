#ifndef PARAMD_CHECKPOINT_HELD_DIRECTORY_H_
#define PARAMD_CHECKPOINT_HELD_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "checkpoint/storage.h"

namespace paramd {

// A file in a directory of checkpoints that says whose it is: the run, and a
// number that no other directory has.
inline constexpr char kMarkerFile[] = ".run";

// The directory of a run's checkpoints, which stays the one that it was: it is
// opened once and held. One that is unmounted or deleted while the job runs is
// not made again, and nothing is written into what its path leads to then.
// Where the same directory is reached in another way, as one that is mounted
// again, its marker says so.
//
// Not thread-safe.
class HeldDirectory {
 public:
  // `nonce`: of this process, for a marker that it writes.
  HeldDirectory(std::string path, uint64_t nonce);

  // OK while the path leads to the directory that was opened, or, if none was
  // yet, once it is. NOT_FOUND or FAILED_PRECONDITION naming the path, what is
  // there and what to do; what looking failed with. What changes is logged.
  absl::Status Check();

  // The same, but makes a directory that was never there, and its marker, over
  // that of another run. `run_id` empty: without one.
  absl::Status Make(const std::string& run_id);

  bool held() const { return held_ != nullptr; }
  // The path led elsewhere, or nowhere, when it was looked at last.
  bool lost() const { return lost_; }
  // What the marker says. Empty: none is known.
  const std::string& marker() const { return marker_; }

 private:
  absl::Status Open();
  // OK if the path leads to it by number or by marker.
  absl::Status Look();
  absl::Status WriteMarker(const std::string& run_id);

  const std::string path_;
  const uint64_t nonce_;
  std::unique_ptr<Storage::Held> held_;
  std::string marker_;
  bool lost_ = false;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_HELD_DIRECTORY_H_
