#ifndef PARAMD_CLIENT_CORE_SESSION_H_
#define PARAMD_CLIENT_CORE_SESSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/random.h"
#include "client/core/chunks.h"
#include "client/core/placement.h"
#include "client/core/sparse_rows.h"
#include "client/core/weights.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/core.h"
#include "tensor/number_format.h"

namespace paramd {

// One worker's conversation with all servers of a job, for one generation:
// pulls variables into Weights and pushes gradients, cut into chunks, resent
// until every block has been answered for.
//
// Invariant: a push is finished only when each of its blocks was acknowledged
// by the present life of the server that owns it, was superseded, or was given
// up. A resent block keeps its push number and stamp, so the server applies it
// at most once. At most one push is open at a time. What another process than
// the one of the configuration answers is not taken.
//
// Not thread-safe: part of a core, called from the core's thread only.
class Session {
 public:
  using OpId = uint64_t;

  struct Options {
    uint32_t worker = 0;
    // As numbers are written on the wire, there or back, whichever is more.
    // Where a server's payloads go through shared memory, a chunk has up to
    // four times as many, 4 MiB at most: there what counts is the number of
    // calls.
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

  // An operation that has ended. Not OK: FENCED, QUARANTINED, JOB_FINISHED and
  // other refusals that no retry mends, with the server's sentence; SUPERSEDED
  // if a server holds what it cannot have from here, so that somebody else
  // pushes as this session; DEADLINE_EXCEEDED if it was given up.
  struct Finished {
    OpId op = 0;
    absl::Status status;
    // Of a push: `pull_into` has every block as it was after it. Otherwise it
    // has some of them.
    bool pulled = false;
  };

  explicit Session(const Options& options)
      : options_(options), next_call_(options.first_call) {}

  // Takes over a configuration that is newer than the one it has (an older one
  // changes nothing). Open chunks to a server whose generation grew are resent
  // whole. kInvalidArgument, with nothing changed, if there are no servers, or
  // the layout is broken or differs from the one at hand.
  absl::Status Configure(const v1::Configuration& configuration,
                         const v1::SessionId& generation);
  bool configured() const { return !configuration_.IsZero(); }
  const Placement& placement() const { return placement_; }
  v1::ConfigurationVersion configuration_version() const;

  // Pulls all blocks that changed of the variables that `into` has; it stays
  // valid and untouched until the operation is finished. `clock` unset: a pull
  // that never waits. One that does because the mode wants it asks again until
  // it is let, and says so once.
  void StartPull(OpId op, Weights* into, absl::optional<uint64_t> clock,
                 Time now, Outbox* out) {
    StartPull(op, into, clock, /*after_step=*/0, now, out);
  }
  // The same in sync mode: not before this step is applied.
  void StartPull(OpId op, Weights* into, absl::optional<uint64_t> clock,
                 uint64_t after_step, Time now, Outbox* out);
  // Looks those rows up, as such a pull.
  void StartLookup(OpId op, SparseRows* rows, absl::optional<uint64_t> clock,
                   uint64_t after_step, Time now, Outbox* out);
  // Pushes one gradient for each variable, float, row-major, of a sparse one of
  // the rows in `info`; none if the push is empty. A gradient without bytes is
  // still being computed and follows by AddGradients; what waits for it leaves
  // then. UntouchedGradient (untouched.h) stands for one of a variable that the
  // push leaves as it is; a sparse one without rows is left anyway.
  // REQUIRES: configured(), no push is open, sizes match the placement.
  void StartPush(OpId op, const PushInfo& info, std::vector<Buffer> gradients,
                 Time now, Outbox* out);
  // Those of them that the push does not have yet and that are not empty here.
  // No change if it has ended. REQUIRES: as above.
  void AddGradients(OpId op, const std::vector<Buffer>& gradients, Time now,
                    Outbox* out);
  // Forgets an operation: its answers change nothing, it is never finished.
  void Cancel(OpId op) { operations_.erase(op); }

  // True if the message was the reply to a call of this session.
  bool Receive(const Message& message, Time now, Outbox* out);
  void Tick(Time now, Outbox* out);
  Time next_tick() const;
  absl::optional<Finished> TakeFinished();

  // For people: whom the oldest open operation waits for; empty if nobody.
  std::string waiting_for() const;
  // The same, if that operation is open for longer than `patience`.
  std::string overdue(Time now, absl::Duration patience) const;
  uint64_t chunks_resent() const { return chunks_resent_; }
  // Median of the last calls to `server` that brought weights; zero if there
  // was none.
  absl::Duration PullLatency(uint32_t server) const;

 private:
  struct ConfigurationInfo {
    v1::ConfigurationVersion version;
    v1::SessionId generation;  // The worker's.
    std::vector<v1::ServerLife> server_generations;
    std::vector<uint64_t> incarnations;  // Of the servers' processes.
    std::vector<uint32_t> peers;         // How servers are called.
    bool IsZero() const { return server_generations.empty(); }
  };
  // Of one operation.
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
  struct Operation {
    bool is_push() const { return into == nullptr && lookup == nullptr; }

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
  struct Call {
    OpId op = 0;
    size_t chunk = 0;
    uint32_t server = 0;
    uint64_t bytes = 0;
    Time sent;
  };
  struct Server {
    int calls = 0;
    std::map<OpId, uint64_t> bytes;  // Under way, of each operation with any.
    bool in_shared_memory = false;   // As its last answer said.
    std::deque<absl::Duration> pull_times;  // At most 64.
  };

  void StartOperation(OpId op, Operation operation, Time now, Outbox* out);
  std::vector<Chunk> CutIntoChunks(const Operation& operation, Time now);
  std::vector<BlockChunk> BlocksOf(const Operation& operation,
                                   const ChunkLimits& limits) const;
  // Of a number in the operation's messages.
  size_t WireBytes(const Operation& operation) const;
  // Bytes of the gradients of a push.
  uint64_t GradientBytes(size_t variable, const SparseRows* rows) const;
  void CheckSizes(const std::vector<Buffer>& gradients,
                  const SparseRows* rows) const;
  bool HasGradient(const Operation& operation, size_t variable) const;
  // No gradient is missing.
  bool IsWhole(const Operation& operation) const;
  void SendWhatMay(Time now, Outbox* out);
  // Of a chunk.
  uint64_t MostBytes(uint32_t server) const;
  // Its call may be made beside those that are under way.
  bool HasRoom(OpId op, const Chunk& chunk) const;
  // Its gradients are there.
  bool IsReady(const Operation& operation, const Chunk& chunk) const;
  void SendChunk(OpId op, Operation* operation, size_t chunk, Time now,
                 Outbox* out);
  void FillHeader(const Operation& operation, const Chunk& chunk,
                  v1::Header* header) const;
  void EndCall(const Call& call, const Message& message);
  // The server is in another place: what is under way to the last one counts
  // as not answered, and as nothing that would keep new calls back.
  void LeavePlace(uint32_t server);
  absl::Status HandleAnswer(Operation* operation, Chunk* chunk,
                            const Message& message, absl::Duration time);
  absl::Status HandlePulled(Weights* into, const Chunk& chunk,
                            const v1::PullReply& reply,
                            const BufferChain& payload);
  absl::Status HandlePushed(const Operation& operation, const Chunk& chunk,
                            const v1::PushReply& reply);
  // How many of the chunk's blocks were answered for, in their order.
  absl::StatusOr<size_t> CountAnswered(const Operation& operation,
                                       const Chunk& chunk,
                                       const v1::PushReply& reply) const;
  // Who answers is who the configuration says.
  absl::Status CheckAnswerer(uint32_t server, uint64_t incarnation) const;
  // Somebody else has sent it.
  absl::Status NotSentByUs(const Operation& operation,
                           const Chunk& chunk) const;
  absl::Status HandleRows(SparseRows* rows, const Chunk& chunk,
                          const v1::PullReply& reply,
                          const BufferChain& payload);
  // The answer to what was asked.
  absl::Status CheckPulled(const v1::PulledBlock& block, const BlockId& id,
                           uint64_t elements) const;
  // Bytes of a block in the payload. Refused if no block can be packed like
  // that.
  absl::StatusOr<uint64_t> PayloadBytes(const v1::PulledBlock& block) const;
  // Its payload is of the size that its blocks say.
  absl::Status CheckPayload(const v1::PullReply& reply, uint64_t bytes,
                            const BufferChain& payload) const;
  // Packed blocks have as many bits as they say. REQUIRES: CheckPayload.
  absl::Status CheckBitmaps(const v1::PullReply& reply,
                            const BufferChain& payload) const;
  Outbox::Head MakePull(const Operation& operation, const Chunk& chunk,
                        BufferChain* payload) const;
  Outbox::Head MakePush(const Operation& operation, const Chunk& chunk,
                        BufferChain* payload) const;
  void AddBlock(const Operation& operation, const BlockId& id,
                v1::PushBlock* block, BufferChain* payload) const;
  // Rows of a push: all blocks of the chunk.
  void AddRows(const Operation& operation, const Chunk& chunk,
               v1::PushRequest* request, BufferChain* payload) const;
  void HandleFailure(OpId op, Chunk* chunk, const absl::Status& status,
                     Time now, Outbox* out);
  void HandleWait(Operation* operation, Chunk* chunk,
                  const absl::Status& status, Time now, Outbox* out);
  void MarkDone(OpId op, Operation* operation, Chunk* chunk);
  void End(OpId op, absl::Status status, bool pulled = false);
  std::string WaitingFor(const Operation& operation) const;
  std::string NameOfServer(uint32_t server) const;
  void NotePullTime(uint32_t server, absl::Duration time);

  const Options options_;
  ConfigurationInfo configuration_;
  Placement placement_;
  std::map<OpId, Operation> operations_;  // Bound: the caller's, at most three.
  absl::flat_hash_map<CallId, Call> calls_;  // Bound: calls_per_server each.
  std::vector<Server> servers_;
  std::deque<Finished> finished_;
  CallId next_call_;
  uint64_t next_request_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t chunks_resent_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_SESSION_H_
