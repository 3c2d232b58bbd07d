#ifndef PARAMD_COORDINATOR_CORE_SHARD_RELAY_H_
#define PARAMD_COORDINATOR_CORE_SHARD_RELAY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// Files of servers that do not see the checkpoint's directory, on their way
// through the coordinator's process: for each, one window after the other is
// fetched from the server and then written. Before that, descriptions of files
// that are too long for an answer, which are fetched and kept.
//
//   to be fetched ──call──► fetched ──work──► written ──┬─ the last ──► done
//         ▲                                             │
//         └─────────────────────────────────────────────┘
//
// Bound: of each such server one window, and a description.
//
// Not thread-safe: lives inside the coordinator's core, which makes the calls
// and starts the work.
class ShardRelay {
 public:
  explicit ShardRelay(uint32_t window_bytes) : window_bytes_(window_bytes) {}

  // Another snapshot, whose files lie in `directory`; what was under way is
  // forgotten.
  void Begin(const v1::SnapshotNumber& snapshot, const std::string& directory);
  // The server can't write this file. A sentence for the log if it is the first
  // one of this server; else empty.
  std::string Unseen(uint32_t server, const v1::ShardFile& file);
  // What the server's file holds is to be fetched, and then, if it is `unseen`,
  // the file.
  void Undescribed(uint32_t server, bool unseen);

  bool NeedsFetch(uint32_t server) const;
  bool IsWriting(uint32_t server) const;
  bool IsDescribing(uint32_t server) const;
  // REQUIRES: NeedsFetch(server).
  v1::FetchShardRequest FetchFor(uint32_t server) const;
  // What is to be written, and the payload with it. kInvalidArgument if that is
  // not the window asked for: nothing has changed then.
  absl::StatusOr<v1::WriteFetched> Fetched(uint32_t server,
                                           const v1::FetchShardReply& reply,
                                           uint64_t bytes);
  // What the server would have answered if its description were shorter, if
  // that was its last window. kInvalidArgument if it is not the window asked
  // for, or not a description. REQUIRES: IsDescribing(server).
  absl::StatusOr<absl::optional<v1::WrittenReply>> Described(
      uint32_t server, const v1::FetchShardReply& reply,
      const BufferChain& payload);
  // The server's file, complete with size and checksum, if that was its last
  // window. kDataLoss if not as much as was fetched is written.
  absl::StatusOr<absl::optional<v1::ShardFile>> Written(
      uint32_t server, const v1::WriteFetchedResult& result);

 private:
  struct Way {
    v1::ShardFile file;
    uint64_t offset = 0;  // Of the window that is asked for or written.
    uint64_t bytes = 0;   // In it, while it is written.
    uint64_t total = 0;
    bool writing = false;
    // Of one that is not described yet:
    bool describing = false;
    bool unseen = false;
    std::string description;
  };

  absl::Status CheckWindow(uint32_t server, const Way& way,
                           const v1::FetchShardReply& reply,
                           uint64_t bytes) const;

  const uint32_t window_bytes_;
  v1::SnapshotNumber snapshot_;
  std::string directory_;
  std::map<uint32_t, Way> ways_;
  std::set<uint32_t> named_in_log_;  // Bound: the servers.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SHARD_RELAY_H_
