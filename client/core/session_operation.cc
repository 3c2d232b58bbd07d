// What a session asks of servers: operations cut into chunks, and the request
// of each chunk.
#include "client/core/session_operation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "client/core/untouched.h"
#include "config/wire_format.h"
#include "proto/member_name.h"

namespace paramd {
namespace {

using Chunk = SessionOperation::Chunk;

// Whether the push leaves the variable as it is.
bool Leaves(const SessionOperation& push, uint32_t variable) {
  return !push.gradients.empty() && IsUntouched(push.gradients[variable]);
}

// Bytes of a number in the operation's messages.
size_t WireBytes(const SessionOperation& operation,
                 const SessionOptions& options) {
  const size_t pulled = BytesOf(options.pull_format);
  if (!operation.is_push()) return pulled;
  const size_t pushed = BytesOf(options.push_format);
  return operation.push.pull_into == nullptr ? pushed
                                             : std::max(pushed, pulled);
}

uint64_t GradientBytes(const Placement& placement, size_t variable,
                       const SparseRows* rows) {
  const auto& sparse = placement.sparse();
  const auto place = std::lower_bound(sparse.begin(), sparse.end(), variable);
  if (place == sparse.end() || *place != variable) {
    return placement.elements()[variable] * sizeof(float);
  }
  return rows == nullptr ? 0 : rows->values(place - sparse.begin()).size();
}

void CheckSizes(const Placement& placement,
                const std::vector<Buffer>& gradients, const SparseRows* rows) {
  for (size_t v = 0; v < gradients.size(); ++v) {
    CHECK(gradients[v].empty() || IsUntouched(gradients[v]) ||
              gradients[v].size() == GradientBytes(placement, v, rows),
          "a gradient has the size of its variable, or of its rows");
  }
}

bool HasGradient(const SessionOperation& push, size_t variable,
                 const Placement& placement) {
  return !push.gradients[variable].empty() ||
         GradientBytes(placement, variable, push.push.rows) == 0;
}

bool IsWhole(const SessionOperation& push, const Placement& placement) {
  for (size_t v = 0; v < push.gradients.size(); ++v) {
    if (!HasGradient(push, v, placement)) return false;
  }
  return true;
}

void FillHeader(const SessionOperation& operation, const Chunk& chunk,
                const SessionTerms& terms, v1::Header* header) {
  header->set_term(terms.version.term());
  *header->mutable_configuration() = terms.version;
  header->set_worker(terms.options.worker);
  *header->mutable_generation() = terms.generation;
  *header->mutable_server_generation() = terms.server_generations[chunk.server];
  header->set_server_incarnation(terms.incarnations[chunk.server]);
  header->set_request_id(chunk.request_id);
  if (operation.is_push()) {
    header->set_sequence(operation.push.sequence);
    *header->mutable_snapshot() = operation.push.snapshot;
  }
}

Outbox::Head MakePull(const SessionOperation& operation, const Chunk& chunk,
                      const SessionTerms& terms, BufferChain* payload) {
  const SessionOptions& options = terms.options;
  const Placement& placement = terms.placement;
  auto request = MakeHead<v1::PullRequest>();
  FillHeader(operation, chunk, terms, request->mutable_header());
  request->set_encoding(EncodingOf(options.pull_format));
  request->set_takes_packed(options.takes_packed);
  if (operation.clock.has_value()) request->set_clock(*operation.clock);
  request->set_after_step(operation.after_step);
  if (operation.lookup != nullptr) {
    AddRowBlocks(chunk, request->mutable_rows());
    *payload = operation.lookup->NamesOf(
        placement, GroupRows(placement, chunk.blocks, chunk.rows), chunk.blocks,
        chunk.rows);
    return request;
  }
  request->mutable_blocks()->Reserve(static_cast<int>(chunk.blocks.size()));
  for (const BlockId& id : chunk.blocks) {
    v1::PullBlock* block = request->add_blocks();
    block->set_slice(id.slice);
    block->set_block(id.block);
    if (!operation.into->is_lent(placement.slices()[id.slice].variable)) {
      *block->mutable_known() = operation.into->version(id.slice, id.block);
    }
  }
  return request;
}

void AddBlock(const SessionOperation& operation, const BlockId& id,
              const SessionTerms& terms, v1::PushBlock* block,
              BufferChain* payload) {
  const PlacedSlice& slice = terms.placement.slices()[id.slice];
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
                             terms.options.push_format));
}

// Rows of a push: all blocks of the chunk.
void AddRows(const SessionOperation& operation, const Chunk& chunk,
             const SessionTerms& terms, v1::PushRequest* request,
             BufferChain* payload) {
  const Placement& placement = terms.placement;
  AddRowBlocks(chunk, request->mutable_rows());
  const auto groups = GroupRows(placement, chunk.blocks, chunk.rows);
  if (groups.empty()) return;
  const SparseRows& rows = *operation.push.rows;
  rows.AddVersions(chunk.blocks, request->mutable_rows_computed_on());
  *payload = rows.NamesOf(placement, groups, chunk.blocks, chunk.rows);
  for (const RowGroup& group : groups) {
    const size_t row_bytes =
        placement.row_elements()[group.variable] * sizeof(float);
    payload->push_back(Encoded(
        operation.gradients[group.variable].Part(group.rows.begin * row_bytes,
                                                 group.rows.size() * row_bytes),
        terms.options.push_format));
  }
}

Outbox::Head MakePush(const SessionOperation& operation, const Chunk& chunk,
                      const SessionTerms& terms, uint64_t acknowledged,
                      BufferChain* payload) {
  const SessionOptions& options = terms.options;
  auto request = MakeHead<v1::PushRequest>();
  const SessionOperation::PushInfo& info = operation.push;
  FillHeader(operation, chunk, terms, request->mutable_header());
  request->set_encoding(EncodingOf(options.push_format));
  request->set_acknowledged(acknowledged);
  request->set_clock(info.clock);
  request->set_epoch(info.epoch);
  request->set_input_begin(info.input_begin);
  request->set_input_end(info.input_end);
  request->set_step(info.step);
  *request->mutable_contributors() = info.contributors;
  request->set_examples(info.examples);
  const uint32_t first =
      terms.placement.slices()[chunk.blocks[0].slice].variable;
  // Of a step its examples say that all of it is.
  request->set_empty((info.empty && info.step == 0) ||
                     Leaves(operation, first));
  if (!chunk.rows.empty()) {
    AddRows(operation, chunk, terms, request.get(), payload);
    return request;
  }
  if (info.pull_into != nullptr) {
    request->mutable_pull()->set_encoding(EncodingOf(options.pull_format));
    request->mutable_pull()->set_takes_packed(options.takes_packed);
    request->mutable_pull()->set_clock(info.clock + 1);  // After this push.
  }
  request->mutable_blocks()->Reserve(static_cast<int>(chunk.blocks.size()));
  payload->reserve(chunk.blocks.size());
  for (const BlockId& id : chunk.blocks) {
    v1::PushBlock* block = request->add_blocks();
    block->set_slice(id.slice);
    block->set_block(id.block);
    AddBlock(operation, id, terms, block, payload);
  }
  return request;
}

}  // namespace

std::string SessionTerms::NameOfServer(uint32_t server) const {
  return ServerName(server, server_generations[server]);
}

void SessionOperation::SetGradients(std::vector<Buffer> all,
                                    const Placement& placement) {
  CHECK(all.size() == (push.empty ? 0 : placement.elements().size()),
        "a push has one gradient for each variable");
  CheckSizes(placement, all, push.rows);
  gradients = std::move(all);
  whole = IsWhole(*this, placement);
}

void SessionOperation::AddGradients(const std::vector<Buffer>& more,
                                    const Placement& placement) {
  CheckSizes(placement, more, push.rows);
  for (size_t v = 0; v < more.size(); ++v) {
    if (!gradients[v].empty()) continue;
    CHECK(!IsUntouched(more[v]),
          "what a push leaves as it is is known when it begins");
    gradients[v] = more[v];
  }
  whole = IsWhole(*this, placement);
}

bool SessionOperation::IsReady(const Chunk& chunk,
                               const Placement& placement) const {
  if (whole) return true;
  return std::none_of(
      chunk.blocks.begin(), chunk.blocks.end(), [&](const BlockId& id) {
        const uint32_t variable = placement.slices()[id.slice].variable;
        return !HasGradient(*this, variable, placement);
      });
}

std::vector<BlockChunk> SessionOperation::Cut(
    const SessionTerms& terms, std::vector<uint64_t> most_bytes) const {
  const Placement& placement = terms.placement;
  ChunkLimits limits;
  limits.number_bytes = WireBytes(*this, terms.options);
  limits.chunk_bytes = terms.options.chunk_bytes;
  limits.most_bytes = std::move(most_bytes);
  limits.one_by_one = !whole;
  if (lookup != nullptr) {
    return CutRowsIntoChunks(placement, lookup, /*all_blocks=*/false, limits);
  }
  if (into != nullptr) {
    return CutIntoChunks(placement, limits, [&](const PlacedSlice& slice) {
      return into->has(slice.variable);
    });
  }
  // A chunk is of a gradient or of none.
  std::vector<BlockChunk> cut;
  for (const bool left : {false, true}) {
    for (BlockChunk& chunk :
         CutIntoChunks(placement, limits, [&](const PlacedSlice& slice) {
           return !slice.sparse && Leaves(*this, slice.variable) == left;
         })) {
      cut.push_back(std::move(chunk));
    }
  }
  const SparseRows* const rows = gradients.empty() ? nullptr : push.rows;
  for (BlockChunk& chunk :
       CutRowsIntoChunks(placement, rows, /*all_blocks=*/true, limits)) {
    cut.push_back(std::move(chunk));
  }
  return cut;
}

Outbox::Head SessionOperation::MakeRequest(const Chunk& chunk,
                                           const SessionTerms& terms,
                                           uint64_t acknowledged,
                                           BufferChain* payload) const {
  return is_push() ? MakePush(*this, chunk, terms, acknowledged, payload)
                   : MakePull(*this, chunk, terms, payload);
}

}  // namespace paramd
