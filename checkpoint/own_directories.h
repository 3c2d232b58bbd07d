#ifndef PARAMD_CHECKPOINT_OWN_DIRECTORIES_H_
#define PARAMD_CHECKPOINT_OWN_DIRECTORIES_H_

#include <string>

#include "absl/status/statusor.h"

namespace paramd {

// The directories of files that this process's own configuration names, and
// what of them somebody else may mean. Who tells a server where to write and
// read is who claims to be the chief; so of what is told only the last
// component counts, in a form that paramd itself gives to names, and it is
// looked for where this process's own configuration says. A link there is not
// followed.
//
// Thread-safe: it never changes.
class OwnDirectories {
 public:
  // Settings as they are: a relative path is of this process's working
  // directory, an empty one nowhere.
  struct Settings {
    std::string checkpoint_directory;
    std::string warm_start_path;
  };
  explicit OwnDirectories(const Settings& settings);

  // The directory that the chief calls `told`, in which a snapshot's files are
  // collected (IsPreparedName); empty if it is not here. INVALID_ARGUMENT if
  // that is no name of one, FAILED_PRECONDITION if a link has that name.
  absl::StatusOr<std::string> Prepared(const std::string& told) const;
  // The same of a committed checkpoint.
  absl::StatusOr<std::string> Committed(const std::string& told) const;
  // What the chief calls `told` and has found by `warm_start.path`: just that,
  // a checkpoint or a file of the one name below it (see FindWarmStart), or a
  // committed checkpoint of the run itself; or the chief's initial values
  // beside these, empty if they are not here. INVALID_ARGUMENT if it is none of
  // them, naming both.
  absl::StatusOr<std::string> WarmStart(const std::string& told) const;

  const std::string& checkpoints() const { return checkpoints_; }

 private:
  // From the root on; empty: nowhere.
  const std::string checkpoints_;
  const std::string warm_start_;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_OWN_DIRECTORIES_H_
