// What a session asks of servers: operations cut into chunks, and the request
// of each chunk.
#include <algorithm>
#include <utility>
#include <vector>

#include "client/core/session.h"
#include "client/core/untouched.h"
#include "config/wire_format.h"

namespace paramd {
namespace {

// Whether a push of these gradients leaves the variable as it is.
bool Leaves(const std::vector<Buffer>& gradients, uint32_t variable) {
  return !gradients.empty() && IsUntouched(gradients[variable]);
}

}  // namespace

size_t Session::WireBytes(const Operation& operation) const {
  const size_t pulled = BytesOf(options_.pull_format);
  if (!operation.is_push()) return pulled;
  const size_t pushed = BytesOf(options_.push_format);
  return operation.push.pull_into == nullptr ? pushed
                                             : std::max(pushed, pulled);
}

std::vector<Session::Chunk> Session::CutIntoChunks(const Operation& operation,
                                                   Time now) {
  ChunkLimits limits;
  limits.number_bytes = WireBytes(operation);
  limits.chunk_bytes = options_.chunk_bytes;
  for (uint32_t server = 0; server < placement_.servers(); ++server) {
    limits.most_bytes.push_back(MostBytes(server));
  }
  limits.one_by_one = !operation.whole;
  std::vector<Chunk> chunks;
  for (BlockChunk& cut : BlocksOf(operation, limits)) {
    Chunk& chunk = chunks.emplace_back();
    static_cast<BlockChunk&>(chunk) = std::move(cut);
    chunk.retry_at = now;
    chunk.request_id =
        CounterRandom(options_.request_id_seed).Bits(next_request_++);
  }
  return chunks;
}

std::vector<BlockChunk> Session::BlocksOf(const Operation& operation,
                                          const ChunkLimits& limits) const {
  if (operation.lookup != nullptr) {
    return CutRowsIntoChunks(placement_, operation.lookup,
                             /*all_blocks=*/false, limits);
  }
  if (operation.into != nullptr) {
    return paramd::CutIntoChunks(placement_, limits,
                                 [&](const PlacedSlice& slice) {
                                   return operation.into->has(slice.variable);
                                 });
  }
  // A chunk is of a gradient or of none.
  std::vector<BlockChunk> chunks;
  for (const bool left : {false, true}) {
    for (BlockChunk& chunk : paramd::CutIntoChunks(
             placement_, limits, [&](const PlacedSlice& slice) {
               return !slice.sparse &&
                      Leaves(operation.gradients, slice.variable) == left;
             })) {
      chunks.push_back(std::move(chunk));
    }
  }
  const SparseRows* const rows =
      operation.gradients.empty() ? nullptr : operation.push.rows;
  for (BlockChunk& chunk : CutRowsIntoChunks(placement_, rows,
                                             /*all_blocks=*/true, limits)) {
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

void Session::FillHeader(const Operation& operation, const Chunk& chunk,
                         v1::Header* header) const {
  header->set_term(configuration_.version.term());
  *header->mutable_configuration() = configuration_.version;
  header->set_worker(options_.worker);
  *header->mutable_generation() = configuration_.generation;
  *header->mutable_server_generation() =
      configuration_.server_generations[chunk.server];
  header->set_server_incarnation(configuration_.incarnations[chunk.server]);
  header->set_request_id(chunk.request_id);
  if (operation.is_push()) {
    header->set_sequence(operation.push.sequence);
    *header->mutable_snapshot() = operation.push.snapshot;
  }
}

Outbox::Head Session::MakePull(const Operation& operation, const Chunk& chunk,
                               BufferChain* payload) const {
  auto request = MakeHead<v1::PullRequest>();
  FillHeader(operation, chunk, request->mutable_header());
  request->set_encoding(EncodingOf(options_.pull_format));
  request->set_takes_packed(options_.takes_packed);
  if (operation.clock.has_value()) request->set_clock(*operation.clock);
  request->set_after_step(operation.after_step);
  if (operation.lookup != nullptr) {
    AddRowBlocks(chunk, request->mutable_rows());
    *payload = operation.lookup->NamesOf(
        placement_, GroupRows(placement_, chunk.blocks, chunk.rows),
        chunk.blocks, chunk.rows);
    return request;
  }
  request->mutable_blocks()->Reserve(static_cast<int>(chunk.blocks.size()));
  for (const BlockId& id : chunk.blocks) {
    v1::PullBlock* block = request->add_blocks();
    block->set_slice(id.slice);
    block->set_block(id.block);
    if (!operation.into->is_lent(placement_.slices()[id.slice].variable)) {
      *block->mutable_known() = operation.into->version(id.slice, id.block);
    }
  }
  return request;
}

Outbox::Head Session::MakePush(const Operation& operation, const Chunk& chunk,
                               BufferChain* payload) const {
  auto request = MakeHead<v1::PushRequest>();
  const PushInfo& info = operation.push;
  FillHeader(operation, chunk, request->mutable_header());
  request->set_encoding(EncodingOf(options_.push_format));
  request->set_acknowledged(acknowledged_);
  request->set_clock(info.clock);
  request->set_epoch(info.epoch);
  request->set_input_begin(info.input_begin);
  request->set_input_end(info.input_end);
  request->set_step(info.step);
  *request->mutable_contributors() = info.contributors;
  request->set_examples(info.examples);
  const uint32_t first = placement_.slices()[chunk.blocks[0].slice].variable;
  // Of a step its examples say that all of it is.
  request->set_empty((info.empty && info.step == 0) ||
                     Leaves(operation.gradients, first));
  if (!chunk.rows.empty()) {
    AddRows(operation, chunk, request.get(), payload);
    return request;
  }
  if (info.pull_into != nullptr) {
    request->mutable_pull()->set_encoding(EncodingOf(options_.pull_format));
    request->mutable_pull()->set_takes_packed(options_.takes_packed);
    request->mutable_pull()->set_clock(info.clock + 1);  // After this push.
  }
  request->mutable_blocks()->Reserve(static_cast<int>(chunk.blocks.size()));
  payload->reserve(chunk.blocks.size());
  for (const BlockId& id : chunk.blocks) {
    v1::PushBlock* block = request->add_blocks();
    block->set_slice(id.slice);
    block->set_block(id.block);
    AddBlock(operation, id, block, payload);
  }
  return request;
}

void Session::AddBlock(const Operation& operation, const BlockId& id,
                       v1::PushBlock* block, BufferChain* payload) const {
  const PlacedSlice& slice = placement_.slices()[id.slice];
  if (operation.push.weights != nullptr) {
    *block->mutable_computed_on() =
        operation.push.weights->version(id.slice, id.block);
  }
  if (operation.gradients.empty()) return;
  if (IsUntouched(operation.gradients[slice.variable])) return;
  const uint64_t elements = slice.block_elements(id.block);
  block->set_elements(static_cast<uint32_t>(elements));
  payload->push_back(Encoded(operation.gradients[slice.variable].Part(
                                 slice.block_begin(id.block) * sizeof(float),
                                 elements * sizeof(float)),
                             options_.push_format));
}

void Session::AddRows(const Operation& operation, const Chunk& chunk,
                      v1::PushRequest* request, BufferChain* payload) const {
  AddRowBlocks(chunk, request->mutable_rows());
  const auto groups = GroupRows(placement_, chunk.blocks, chunk.rows);
  if (groups.empty()) return;
  const SparseRows& rows = *operation.push.rows;
  rows.AddVersions(chunk.blocks, request->mutable_rows_computed_on());
  *payload = rows.NamesOf(placement_, groups, chunk.blocks, chunk.rows);
  for (const RowGroup& group : groups) {
    const size_t row_bytes =
        placement_.row_elements()[group.variable] * sizeof(float);
    payload->push_back(Encoded(
        operation.gradients[group.variable].Part(group.rows.begin * row_bytes,
                                                 group.rows.size() * row_bytes),
        options_.push_format));
  }
}

}  // namespace paramd
