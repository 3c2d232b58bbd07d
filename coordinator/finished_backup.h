#ifndef PARAMD_COORDINATOR_FINISHED_BACKUP_H_
#define PARAMD_COORDINATOR_FINISHED_BACKUP_H_

#include <string>

#include "absl/status/status.h"

namespace paramd {

// Moves what a finished run has in its backup, configuration/ and checkpoints/,
// to its own directory, as if there had been no backup, and removes `backup`
// unless somebody else has something there. Cut off anywhere, the same call
// goes on: the configuration log, which says that the run has finished, moves
// last. ALREADY_EXISTS, with nothing changed, if `run_directory` holds another
// run or something else of this one; otherwise the error of the file, and
// everything is in one place or the other.
absl::Status TakeOutOfBackup(const std::string& backup,
                             const std::string& run_directory);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_FINISHED_BACKUP_H_
