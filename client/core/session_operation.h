#ifndef PARAMD_CLIENT_CORE_SESSION_OPERATION_H_
#define PARAMD_CLIENT_CORE_SESSION_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "client/core/chunks.h"
#include "client/core/placement.h"
#include "client/core/sparse_rows.h"
#include "client/core/weights.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/core.h"
#include "tensor/number_format.h"

namespace paramd {

// How a session talks to servers. Immutable.
struct SessionOptions {
  uint32_t worker = 0;
  // As numbers are written on the wire, there or back, whichever is more. Where
  // a server's payloads go through shared memory, a chunk has up to four times
  // as many, 4 MiB at most: there what counts is the number of calls.
  uint64_t chunk_bytes = uint64_t{1} << 20;
  NumberFormat push_format = NumberFormat::kFp32;
  NumberFormat pull_format = NumberFormat::kFp32;
  // Whether blocks may come packed (tensor/packed_numbers.h).
  bool takes_packed = false;
  // Of one push or pull, together of as many bytes as so many chunks of
  // chunk_bytes, or as two of the longer ones through shared memory.
  int calls_per_server = 4;
  absl::Duration call_deadline = absl::Seconds(10);
  // A push or pull that takes longer is given up.
  absl::Duration give_up_after = absl::Minutes(5);
  uint64_t request_id_seed = 0;
  // Calls are numbered from here; sessions of one node do not share numbers.
  CallId first_call = 1;
};

// What a session's operations have in common: its options, and what its newest
// configuration says of the worker and of each server.
struct SessionTerms {
  SessionOptions options;
  v1::ConfigurationVersion version;
  v1::SessionId generation;  // The worker's.
  std::vector<v1::ServerLife> server_generations;
  std::vector<uint64_t> incarnations;  // Of the servers' processes.
  std::vector<uint32_t> peers;         // How servers are called.
  Placement placement;

  std::string NameOfServer(uint32_t server) const;
};

// A pull, a lookup or a push: what it is of, its chunks, and how far each has
// come.
//
// Invariant: each of its blocks is in one chunk. A push keeps its number and
// stamp, and a chunk its request id, however often it is sent.
//
// Not thread-safe: part of a session.
struct SessionOperation {
  // What a push carries beside its gradient.
  struct PushInfo {
    uint64_t sequence = 0;
    uint64_t clock = 0;
    v1::SnapshotNumber snapshot;
    uint32_t epoch = 0;
    uint64_t input_begin = 0;
    uint64_t input_end = 0;
    // What the gradient was computed on, unchanged until the push has ended.
    // Null: not told.
    const Weights* weights = nullptr;
    // Which rows of sparse variables it is of; as above. Null: of none.
    const SparseRows* rows = nullptr;
    // Sync mode: the step it contributes to, as one of these contributors, and
    // how many examples it is of.
    uint64_t step = 0;
    v1::ContributorsVersion contributors;
    uint64_t examples = 0;
    // Of no examples, in any mode: it has no numbers, and changes none.
    bool empty = false;
    // Takes what the servers hold after the push, of variables that are not
    // sparse, if they can say it with their answers; valid and untouched until
    // the push has ended. Null: not asked.
    Weights* pull_into = nullptr;
  };
  struct Chunk : BlockChunk {
    bool done = false;
    bool pulled = false;  // With the answer to its push.
    Time retry_at;
    int attempts = 0;
    // The server may have it: a sending has had no answer that says.
    bool may_be_in = false;
    std::string why;          // The last failure, for people.
    std::string slower;       // Whom the mode makes it wait for; "": nobody.
    CallId call = 0;          // 0: not under way.
    uint64_t request_id = 0;  // Kept over resends.
  };

  bool is_push() const { return into == nullptr && lookup == nullptr; }

  // The gradients of a push, one for each variable, or none of one that is
  // empty; and later, of those without bytes, more of them. REQUIRES: each has
  // no bytes, the size of its variable or of its rows, or at first is
  // untouched.
  void SetGradients(std::vector<Buffer> all, const Placement& placement);
  void AddGradients(const std::vector<Buffer>& more,
                    const Placement& placement);
  // Those of the chunk are there.
  bool IsReady(const Chunk& chunk, const Placement& placement) const;

  // Its blocks, in chunks for servers that each take so many bytes in one.
  std::vector<BlockChunk> Cut(const SessionTerms& terms,
                              std::vector<uint64_t> most_bytes) const;
  // What a server is asked for a chunk. `acknowledged`: the newest push that
  // has ended.
  Outbox::Head MakeRequest(const Chunk& chunk, const SessionTerms& terms,
                           uint64_t acknowledged, BufferChain* payload) const;

  Weights* into = nullptr;       // A pull,
  SparseRows* lookup = nullptr;  // or a lookup; both null: a push.
  absl::optional<uint64_t> clock;
  uint64_t after_step = 0;
  PushInfo push;
  std::vector<Buffer> gradients;
  bool whole = true;  // No gradient is missing.
  std::vector<Chunk> chunks;
  size_t left = 0;  // Chunks not done.
  Time started;
  bool wait_told = false;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_SESSION_OPERATION_H_
