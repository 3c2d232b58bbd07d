#include "client/live_weights.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"

#include "base/status_macros.h"
#include "client/core/chunks.h"
#include "client/core/placement.h"
#include "client/core/sparse_rows.h"
#include "client/running_cluster.h"
#include "client/unary_call.h"
#include "net/caller.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"
#include "tensor/buffer.h"
#include "tensor/number_format.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
// Together of at most so many bytes as these chunks.
constexpr size_t kMostOpenCalls = 8;
constexpr int kMostPasses = 10;
constexpr absl::Duration kAgainAfter = absl::Milliseconds(200);

using PullCall = UnaryCall<v1::PullRequest, v1::PullReply>;

// Whether that is the shape of the variable in the running job; rows by key are
// found whatever the capacity is.
bool HasShapeOf(const v1::Variable& there, const v1::Variable& wanted) {
  if (there.shape_size() != wanted.shape_size()) return false;
  const int first = there.keyed() && wanted.keyed() ? 1 : 0;
  return std::equal(there.shape().begin() + first, there.shape().end(),
                    wanted.shape().begin() + first);
}

// Blocks of one server, with what was pulled of them last.
struct Chunk : BlockChunk {
  explicit Chunk(BlockChunk chunk)
      : BlockChunk(std::move(chunk)), versions(blocks.size()) {}

  std::vector<v1::BlockVersion> versions;
  uint64_t step = 0;  // Sync mode: of the server when it answered.
};

// One attempt: fails as a whole as soon as anything is not as the configuration
// says.
class Attempt {
 public:
  Attempt(const RunningCluster& cluster, const Tls* tls, absl::Time deadline)
      : configuration_(cluster.configuration),
        servers_(cluster.servers),
        tls_(tls),
        deadline_(deadline) {}

  absl::StatusOr<PulledWeights> Pull(
      absl::Span<const v1::Variable> wanted,
      absl::Span<const std::vector<uint64_t>> keys) {
    ASSIGN_OR_RETURN(placement_,
                     Placement::Create(configuration_.layout(),
                                       static_cast<uint32_t>(servers_.size())));
    RETURN_IF_ERROR(Choose(wanted));
    RETURN_IF_ERROR(ChooseRows(keys));
    CutChunks();
    const bool sync =
        configuration_.consistency().mode() == v1::Consistency::SYNC;
    for (int pass = 0; pass < kMostPasses; ++pass) {
      RETURN_IF_ERROR(PullChunks());
      if (!sync || IsOneStep()) break;
    }
    CountSteps();
    return std::move(pulled_);
  }

 private:
  absl::Status Choose(absl::Span<const v1::Variable> wanted);
  // Which rows of keyed variables.
  absl::Status ChooseRows(absl::Span<const std::vector<uint64_t>> keys);
  void CutChunks();
  // Pulls what has changed, some chunks at a time.
  absl::Status PullChunks();
  std::unique_ptr<PullCall> Begin(size_t chunk, grpc::CompletionQueue* queue);
  void AskForBlocks(const Chunk& chunk, v1::PullRequest* request) const;
  void AskForRows(const Chunk& chunk, v1::PullRequest* request) const;
  absl::Status Take(const v1::PullReply& reply, Chunk* chunk);
  absl::Status Check(const v1::PullReply& reply, const Chunk& chunk) const;
  bool HasBlocks(const v1::PullReply& reply, const Chunk& chunk) const;
  bool HasRows(const v1::PullReply& reply, const Chunk& chunk) const;
  bool IsOneStep() const {
    return std::all_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
      return chunk.step == chunks_[0].step;
    });
  }
  void CountSteps();

  const v1::Configuration& configuration_;
  const std::vector<RunningProcess>& servers_;
  const Tls* const tls_;
  const absl::Time deadline_;
  Placement placement_;
  absl::flat_hash_map<uint32_t, size_t> places_;  // By variable of the layout.
  absl::optional<SparseRows> rows_;  // Of keyed variables, if any is wanted.
  std::vector<Chunk> chunks_;
  PulledWeights pulled_;
};

absl::Status Attempt::Choose(absl::Span<const v1::Variable> wanted) {
  absl::flat_hash_map<std::string, uint32_t> known;
  for (size_t v = 0; v < placement_.names().size(); ++v) {
    known[placement_.names()[v]] = static_cast<uint32_t>(v);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = wanted[i].name();
    const auto found = known.find(name);
    if (found == known.end()) {
      return absl::NotFoundError(
          absl::StrCat("the running job has no variable '", name, "'"));
    }
    const v1::Variable& there =
        configuration_.layout().variables(static_cast<int>(found->second));
    if (!HasShapeOf(there, wanted[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", name, "' is ", ShapeName(wanted[i].shape()),
          " here; in the running job it is ", ShapeName(there.shape())));
    }
    if (!places_.emplace(found->second, i).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", name, "' is named twice"));
    }
    pulled_.values.emplace_back(
        there.keyed() ? 0 : placement_.elements()[found->second]);
  }
  return absl::OkStatus();
}

absl::Status Attempt::ChooseRows(absl::Span<const std::vector<uint64_t>> keys) {
  // In the order in which they were named.
  std::map<size_t, uint32_t> keyed;
  for (const auto& [variable, place] : places_) {
    if (placement_.is_keyed(variable)) keyed[place] = variable;
  }
  if (keyed.empty()) return absl::OkStatus();
  std::vector<Buffer> numbers(placement_.sparse().size());
  size_t next = 0;
  for (const auto& [place, variable] : keyed) {
    if (next == keys.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", placement_.names()[variable],
          "' has its rows by key: name the keys whose rows are wanted"));
    }
    const auto sparse = std::lower_bound(placement_.sparse().begin(),
                                         placement_.sparse().end(), variable);
    numbers[sparse - placement_.sparse().begin()] =
        Buffer::Copy(AsBytes(absl::MakeConstSpan(keys[next])));
    pulled_.values[place].resize(keys[next].size() *
                                 placement_.row_elements()[variable]);
    ++next;
  }
  ASSIGN_OR_RETURN(rows_, SparseRows::Create(placement_, std::move(numbers)));
  return absl::OkStatus();
}

void Attempt::CutChunks() {
  const ChunkLimits limits{
      .chunk_bytes = kChunkBytes,
      .most_bytes = std::vector<uint64_t>(servers_.size(), kChunkBytes)};
  for (BlockChunk& whole :
       CutIntoChunks(placement_, limits, [&](const PlacedSlice& slice) {
         return !slice.keyed && places_.contains(slice.variable);
       })) {
    chunks_.emplace_back(std::move(whole));
  }
  if (rows_.has_value()) {
    for (BlockChunk& some :
         CutRowsIntoChunks(placement_, &*rows_, /*all_blocks=*/false, limits)) {
      chunks_.emplace_back(std::move(some));
    }
  }
}

absl::Status Attempt::PullChunks() {
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<PullCall>> calls;
  absl::Status status;
  for (size_t ended = 0; ended < chunks_.size(); ++ended) {
    while (status.ok() && calls.size() < chunks_.size() &&
           calls.size() < ended + kMostOpenCalls) {
      calls.push_back(Begin(calls.size(), &queue));
    }
    if (ended == calls.size()) break;
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    const size_t chunk = reinterpret_cast<uintptr_t>(tag);
    const std::unique_ptr<PullCall> call = std::move(calls[chunk]);
    if (!status.ok()) continue;
    status = call->status().ok() ? Take(call->reply(), &chunks_[chunk])
                                 : servers_[chunks_[chunk].server].Explain(
                                       call->status(), tls_);
    if (status.ok()) continue;
    for (const auto& open : calls) {
      if (open != nullptr) open->Cancel();
    }
  }
  queue.Shutdown();
  return status;
}

std::unique_ptr<PullCall> Attempt::Begin(size_t number,
                                         grpc::CompletionQueue* queue) {
  const Chunk& chunk = chunks_[number];
  const RunningProcess& server = servers_[chunk.server];
  const v1::ServerMember& member =
      configuration_.servers(static_cast<int>(chunk.server));
  v1::PullRequest request;
  v1::Header& header = *request.mutable_header();
  *header.mutable_configuration() = configuration_.version();
  *header.mutable_server_generation() = member.generation();
  request.set_encoding(v1::FP32);
  chunk.rows.empty() ? AskForBlocks(chunk, &request)
                     : AskForRows(chunk, &request);
  auto call = std::make_unique<PullCall>(server.channel, deadline_);
  call->AddMetadata(kShardKey, server.shard);
  const std::string meant = ProcessText(member.incarnation());
  if (!meant.empty()) call->AddMetadata(kIncarnationKey, meant);
  call->Start(request, queue, reinterpret_cast<void*>(number));
  return call;
}

void Attempt::AskForBlocks(const Chunk& chunk, v1::PullRequest* request) const {
  for (size_t i = 0; i < chunk.blocks.size(); ++i) {
    v1::PullBlock* const block = request->add_blocks();
    block->set_slice(chunk.blocks[i].slice);
    block->set_block(chunk.blocks[i].block);
    *block->mutable_known() = chunk.versions[i];
  }
}

void Attempt::AskForRows(const Chunk& chunk, v1::PullRequest* request) const {
  AddRowBlocks(chunk, request->mutable_rows());
  const BufferChain names = rows_->NamesOf(
      placement_, GroupRows(placement_, chunk.blocks, chunk.rows), chunk.blocks,
      chunk.rows);
  for (const Buffer& piece : names) {
    request->mutable_payload()->append(
        reinterpret_cast<const char*>(piece.bytes().data()), piece.size());
  }
}

// Whoever answers is believed nothing that would be read beyond its end.
absl::Status Attempt::Check(const v1::PullReply& reply,
                            const Chunk& chunk) const {
  const std::string& name = servers_[chunk.server].name;
  const v1::ServerMember& member =
      configuration_.servers(static_cast<int>(chunk.server));
  if (reply.server_generation() != member.generation() ||
      reply.incarnation() != member.incarnation()) {
    return absl::UnavailableError(
        absl::StrCat(name, " was restored while its weights were pulled"));
  }
  const bool same =
      chunk.rows.empty() ? HasBlocks(reply, chunk) : HasRows(reply, chunk);
  if (same && reply.encoding() == v1::FP32) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(name,
                   " answered a pull with other blocks or another number "
                   "of bytes than were asked for"));
}

bool Attempt::HasBlocks(const v1::PullReply& reply, const Chunk& chunk) const {
  uint64_t bytes = 0;
  bool same = reply.blocks_size() == static_cast<int>(chunk.blocks.size());
  for (size_t i = 0; same && i < chunk.blocks.size(); ++i) {
    const v1::PulledBlock& block = reply.blocks(static_cast<int>(i));
    const BlockId& asked = chunk.blocks[i];
    const v1::BlockVersion& known = chunk.versions[i];
    const bool unchanged = block.version().life() == known.life() &&
                           block.version().counter() == known.counter();
    const uint64_t elements =
        placement_.slices()[asked.slice].block_elements(asked.block);
    same = block.slice() == asked.slice && block.block() == asked.block &&
           (block.elements() == elements ||
            (block.elements() == 0 && unchanged && known.life() != 0));
    bytes += block.elements() * sizeof(float);
  }
  return same && bytes == reply.payload().size();
}

bool Attempt::HasRows(const v1::PullReply& reply, const Chunk& chunk) const {
  const int blocks = static_cast<int>(chunk.blocks.size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < chunk.blocks.size(); ++i) {
    bytes += chunk.rows[i].size() * sizeof(float) *
             placement_.slices()[chunk.blocks[i].slice].row_elements;
  }
  return reply.row_versions().lives_size() == blocks &&
         reply.row_versions().counters_size() == blocks &&
         bytes == reply.payload().size();
}

absl::Status Attempt::Take(const v1::PullReply& reply, Chunk* chunk) {
  RETURN_IF_ERROR(Check(reply, *chunk));
  chunk->step = reply.step();
  const auto* bytes =
      reinterpret_cast<const std::byte*>(reply.payload().data());
  const auto decode = [&](size_t variable, uint64_t begin, uint64_t elements) {
    float* const out = pulled_.values[places_[variable]].data() + begin;
    DecodeNumbers(NumberFormat::kFp32, bytes, elements, out);
    bytes += elements * sizeof(float);
  };
  for (size_t i = 0; i < chunk->blocks.size(); ++i) {
    const PlacedSlice& slice = placement_.slices()[chunk->blocks[i].slice];
    if (!chunk->rows.empty()) {
      decode(slice.variable, chunk->rows[i].begin * slice.row_elements,
             chunk->rows[i].size() * slice.row_elements);
      const int at = static_cast<int>(i);
      chunk->versions[i].set_life(reply.row_versions().lives(at));
      chunk->versions[i].set_counter(reply.row_versions().counters(at));
      continue;
    }
    const v1::PulledBlock& block = reply.blocks(static_cast<int>(i));
    if (block.elements() == 0) continue;
    decode(slice.variable, slice.block_begin(block.block()), block.elements());
    chunk->versions[i] = block.version();
  }
  return absl::OkStatus();
}

void Attempt::CountSteps() {
  if (chunks_.empty()) return;
  pulled_.least_step = std::numeric_limits<uint64_t>::max();
  for (const Chunk& chunk : chunks_) {
    for (const v1::BlockVersion& version : chunk.versions) {
      pulled_.least_step = std::min(pulled_.least_step, version.counter());
      pulled_.most_step = std::max(pulled_.most_step, version.counter());
    }
  }
}

// Does `once` with the cluster as it is then, again while it may help. Of a
// last try that has no time left, the one before says more.
absl::Status UntilItWorks(
    const LiveWeights::Options& options,
    absl::FunctionRef<absl::Status(const RunningCluster&, absl::Time)> once) {
  const absl::Time deadline = absl::Now() + options.timeout;
  bool answered = false;
  absl::Status before;
  for (;;) {
    const auto cluster =
        FindCluster({options.address, options.tls}, deadline, &answered);
    const absl::Status status =
        cluster.ok() ? once(*cluster, deadline) : cluster.status();
    if (!status.ok() && !before.ok() && absl::Now() >= deadline) return before;
    if (!answered || !absl::IsUnavailable(status) ||
        absl::Now() + kAgainAfter >= deadline) {
      return status;
    }
    before = status;
    absl::SleepFor(kAgainAfter);
  }
}

}  // namespace

absl::StatusOr<std::vector<v1::Variable>> LiveWeights::Variables() {
  std::vector<v1::Variable> variables;
  RETURN_IF_ERROR(UntilItWorks(
      options_, [&](const RunningCluster& cluster, absl::Time /*deadline*/) {
        const auto& all = cluster.configuration.layout().variables();
        variables.assign(all.begin(), all.end());
        return absl::OkStatus();
      }));
  return variables;
}

absl::StatusOr<PulledWeights> LiveWeights::Pull(
    absl::Span<const v1::Variable> variables,
    absl::Span<const std::vector<uint64_t>> keys) {
  PulledWeights weights;
  RETURN_IF_ERROR(UntilItWorks(
      options_,
      [&](const RunningCluster& cluster, absl::Time deadline) -> absl::Status {
        Attempt attempt(cluster, options_.tls.get(), deadline);
        ASSIGN_OR_RETURN(weights, attempt.Pull(variables, keys));
        return absl::OkStatus();
      }));
  return weights;
}

}  // namespace paramd
