#ifndef PARAMD_COORDINATOR_CONFIGURATION_LOG_H_
#define PARAMD_COORDINATOR_CONFIGURATION_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// The configuration log of one run on POSIX or NFS: a directory in which entry
// n is the file `0000000n`, a line with its checksum and the entry as JSON.
//
// Invariant: a number has one entry for ever, written wholly before it got its
// name. Two processes that append under one number: one is told OK, the other
// ABORTED, whatever link(2) answers (NFS may answer EEXIST to its own success).
//
// Thread safety: not thread-safe; several processes may have one directory.
class DirectoryLog {
 public:
  // `directory` is made by the first Append.
  explicit DirectoryLog(std::string directory);

  // Appends `entry` under its own number, durably. ABORTED if the number has
  // somebody else's entry or there are newer ones; OK again for the same nonce.
  // INVALID_ARGUMENT for number 0, FAILED_PRECONDITION if the number before has
  // no entry. With any other error the entry may be in or not: the caller steps
  // down. An error of a file is never ABORTED.
  absl::Status Append(const v1::LogEntry& entry);

  // All entries, 1, 2, 3 …; none if there is no directory. DATA_LOSS naming the
  // entry that is missing or damaged.
  absl::StatusOr<std::vector<v1::LogEntry>> ReadAll() const;

  // Removes what appends have left that were cut off, by a kill or a power cut,
  // and nothing else. For the one process that holds the run: an append that is
  // under way elsewhere fails, as if it came too late. Errors name the file.
  absl::Status RemoveCutOff() const;

 private:
  // Numbers that have an entry, sorted; none if there is no directory.
  absl::StatusOr<std::vector<uint64_t>> Numbers() const;
  absl::StatusOr<v1::LogEntry> Read(uint64_t number) const;
  std::string PathOf(uint64_t number) const;
  // Writes the entry as a durable file of its own, then links it to its number.
  absl::Status WriteAndLink(const v1::LogEntry& entry);
  // What is found under its number then: empty if `entry` is in as the newest
  // one, else what another coordinator has done.
  absl::StatusOr<std::string> Store(const v1::LogEntry& entry);

  const std::string directory_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CONFIGURATION_LOG_H_
