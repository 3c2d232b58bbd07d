#include "client/core/session_answers.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/wire_format.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "tensor/number_reader.h"
#include "tensor/packed_numbers.h"

namespace paramd {

namespace {

using Chunk = SessionOperation::Chunk;

// Who answers is who the configuration says.
absl::Status CheckAnswerer(const SessionTerms& terms, uint32_t server,
                           uint64_t incarnation) {
  if (incarnation == terms.incarnations[server]) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      terms.NameOfServer(server), " is process ",
      absl::Hex(terms.incarnations[server], absl::kZeroPad16),
      " in configuration ", VersionName(terms.version), "; process ",
      absl::Hex(incarnation, absl::kZeroPad16), " answered"));
}

// How many of the chunk's blocks were answered for, in their order.
absl::StatusOr<size_t> CountAnswered(const SessionTerms& terms,
                                     const SessionOperation& operation,
                                     const Chunk& chunk,
                                     const v1::PushReply& reply) {
  const auto is_anothers = [&](int result) {
    return !chunk.may_be_in && (result == v1::PushedBlock::ALREADY_APPLIED ||
                                result == v1::PushedBlock::SUPERSEDED);
  };
  size_t answered = 0;
  if (!chunk.rows.empty()) {
    for (const int result : reply.row_results()) {
      if (is_anothers(result)) return NotSentByUs(terms, operation, chunk);
      if (result == v1::PushedBlock::RESULT_UNSPECIFIED) break;
      ++answered;
    }
    return answered;
  }
  for (const v1::PushedBlock& block : reply.blocks()) {
    if (answered == chunk.blocks.size()) break;
    if (is_anothers(block.result())) {
      return NotSentByUs(terms, operation, chunk);
    }
    const BlockId& id = chunk.blocks[answered];
    if (block.slice() == id.slice && block.block() == id.block &&
        block.result() != v1::PushedBlock::RESULT_UNSPECIFIED) {
      ++answered;
    }
  }
  return answered;
}

absl::Status HandlePushed(const SessionTerms& terms,
                          const SessionOperation& operation, const Chunk& chunk,
                          const v1::PushReply& reply) {
  RETURN_IF_ERROR(CheckAnswerer(terms, chunk.server, reply.incarnation()));
  if (reply.server_generation() != terms.server_generations[chunk.server]) {
    return absl::UnavailableError(absl::StrCat(
        "ps-", chunk.server, " answered for another of its lives"));
  }
  ASSIGN_OR_RETURN(const size_t answered,
                   CountAnswered(terms, operation, chunk, reply));
  if (answered != chunk.blocks.size()) {
    return absl::UnavailableError(
        absl::StrCat("ps-", chunk.server, " answered for ", answered, " of ",
                     chunk.blocks.size(), " blocks"));
  }
  return absl::OkStatus();
}

// The answer to what was asked.
absl::Status CheckPulled(const v1::PulledBlock& block, const BlockId& id,
                         uint64_t elements) {
  if (block.slice() == id.slice && block.block() == id.block &&
      block.elements() == elements) {
    if (elements == 0 || block.version().life() != 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("a pull's answer has block ", id.block, " of slice ",
                     id.slice, " without its version"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a pull's answer has block ", block.block(), " of slice ", block.slice(),
      " with ", block.elements(), " elements; asked was block ", id.block,
      " of slice ", id.slice, " with ", elements));
}

// Bytes of a block in the payload. Refused if no block can be packed like
// that.
absl::StatusOr<uint64_t> PayloadBytes(const SessionTerms& terms,
                                      const v1::PulledBlock& block) {
  if (!block.has_nonzero()) {
    return block.elements() * BytesOf(terms.options.pull_format);
  }
  if (!terms.options.takes_packed) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pull's answer has block ", block.block(), " of slice ",
                     block.slice(), " packed, which was not asked for"));
  }
  if (block.elements() == 0 || block.nonzero() > block.elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pull's answer has block ", block.block(), " of slice ",
                     block.slice(), " packed with ", block.nonzero(),
                     " numbers of ", block.elements(), " elements"));
  }
  return PackedBytes(terms.options.pull_format, block.elements(),
                     block.nonzero());
}

// Its payload is of the size that its blocks say.
absl::Status CheckPayload(const SessionTerms& terms, const v1::PullReply& reply,
                          uint64_t bytes, const BufferChain& payload) {
  const v1::Encoding encoding = EncodingOf(terms.options.pull_format);
  if (bytes == ChainSize(payload) &&
      (bytes == 0 || reply.encoding() == encoding)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a pull's answer has ", ChainSize(payload), " bytes of encoding ",
      static_cast<int>(reply.encoding()), "; its blocks need ", bytes,
      " of encoding ", static_cast<int>(encoding)));
}

// Packed blocks have as many bits as they say. REQUIRES: CheckPayload.
absl::Status CheckBitmaps(const SessionTerms& terms, const v1::PullReply& reply,
                          const BufferChain& payload) {
  ChainReader chain(payload);
  const NumberReader reader(&chain, terms.options.pull_format);
  for (const v1::PulledBlock& block : reply.blocks()) {
    if (!block.has_nonzero()) {
      reader.Skip(block.elements());
      continue;
    }
    const Bitmap bitmap(&chain, block.elements());
    const std::string name =
        absl::StrCat("a pull's answer has block ", block.block(), " of slice ",
                     block.slice(), " packed with ");
    if (bitmap.IsTooLong()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, "bits behind its ", block.elements(), " elements"));
    }
    if (bitmap.nonzero() != block.nonzero()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, block.nonzero(), " numbers; ", bitmap.nonzero(),
                       " of its bits are set"));
    }
    reader.Skip(block.nonzero());
  }
  return absl::OkStatus();
}

absl::Status HandlePulled(const SessionTerms& terms, Weights* into,
                          const Chunk& chunk, const v1::PullReply& reply,
                          const BufferChain& payload) {
  // Checked whole before the first element is copied.
  RETURN_IF_ERROR(CheckAnswerer(terms, chunk.server, reply.incarnation()));
  if (reply.blocks_size() != static_cast<int>(chunk.blocks.size())) {
    return absl::UnavailableError("a pull's answer has not all blocks");
  }
  uint64_t bytes = 0;
  for (int i = 0; i < reply.blocks_size(); ++i) {
    const v1::PulledBlock& block = reply.blocks(i);
    const BlockId& id = chunk.blocks[i];
    RETURN_IF_ERROR(CheckPulled(
        block, id,
        block.elements() == 0
            ? 0
            : terms.placement.slices()[id.slice].block_elements(id.block)));
    const v1::BlockVersion& held = into->version(id.slice, id.block);
    // Memory that is lent holds no version for sure: none was asked about.
    if (block.elements() == 0 &&
        (into->is_lent(terms.placement.slices()[id.slice].variable) ||
         held.life() == 0 || held.life() != block.version().life() ||
         held.counter() != block.version().counter())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a pull's answer says that block ", id.block, " of slice ", id.slice,
          " has not changed, which is not the version that is held here"));
    }
    ASSIGN_OR_RETURN(const uint64_t block_bytes, PayloadBytes(terms, block));
    bytes += block_bytes;
  }
  RETURN_IF_ERROR(CheckPayload(terms, reply, bytes, payload));
  if (terms.options.takes_packed) {
    RETURN_IF_ERROR(CheckBitmaps(terms, reply, payload));
  }
  ChainReader chain(payload);
  const NumberReader reader(&chain, terms.options.pull_format);
  for (const v1::PulledBlock& block : reply.blocks()) {
    if (block.elements() == 0) continue;
    const PlacedSlice& slice = terms.placement.slices()[block.slice()];
    if (block.has_nonzero()) {
      into->SetPacked(slice, block, terms.options.pull_format, &chain);
    } else {
      into->Set(slice, block.slice(), block.block(), block.version(), reader);
    }
  }
  return absl::OkStatus();
}

absl::Status HandleRows(const SessionTerms& terms, SparseRows* rows,
                        const Chunk& chunk, const v1::PullReply& reply,
                        const BufferChain& payload) {
  RETURN_IF_ERROR(CheckAnswerer(terms, chunk.server, reply.incarnation()));
  const int blocks = static_cast<int>(chunk.blocks.size());
  if (reply.row_versions().lives_size() != blocks ||
      reply.row_versions().counters_size() != blocks) {
    return absl::UnavailableError("a lookup's answer has not all blocks");
  }
  const auto groups = GroupRows(terms.placement, chunk.blocks, chunk.rows);
  uint64_t elements = 0;
  for (const RowGroup& group : groups) {
    elements +=
        group.rows.size() * terms.placement.row_elements()[group.variable];
  }
  RETURN_IF_ERROR(CheckPayload(
      terms, reply, elements * BytesOf(terms.options.pull_format), payload));
  ChainReader chain(payload);
  rows->Set(terms.placement, groups,
            NumberReader(&chain, terms.options.pull_format));
  rows->SetVersions(chunk.blocks, reply.row_versions());
  return absl::OkStatus();
}

}  // namespace

absl::Status NotSentByUs(const SessionTerms& terms,
                         const SessionOperation& operation,
                         const SessionOperation::Chunk& chunk) {
  return Refuse(
      v1::Refusal::SUPERSEDED, terms.NameOfServer(chunk.server),
      absl::StrCat(terms.NameOfServer(chunk.server), " holds push ",
                   operation.push.sequence, " of ",
                   WorkerName(terms.options.worker, terms.generation),
                   " or a later one, which it cannot have from there: another "
                   "process pushes as this session"));
}

absl::Status TakeAnswer(const Message& message, const SessionTerms& terms,
                        const SessionOperation& operation,
                        SessionOperation::Chunk* chunk, bool* has_weights) {
  const auto* pulled =
      google::protobuf::DynamicCastToGenerated<v1::PullReply>(message.head);
  const auto* pushed =
      google::protobuf::DynamicCastToGenerated<v1::PushReply>(message.head);
  if (pulled != nullptr && !operation.is_push()) {
    *has_weights = true;
    return operation.into != nullptr
               ? HandlePulled(terms, operation.into, *chunk, *pulled,
                              message.payload)
               : HandleRows(terms, operation.lookup, *chunk, *pulled,
                            message.payload);
  }
  if (pushed == nullptr || !operation.is_push()) {
    return absl::InvalidArgumentError(
        absl::StrCat(PeerName(message.from), " answered another method"));
  }
  RETURN_IF_ERROR(HandlePushed(terms, operation, *chunk, *pushed));
  if (operation.push.pull_into == nullptr || !pushed->has_pulled()) {
    return absl::OkStatus();
  }
  *has_weights = true;
  RETURN_IF_ERROR(HandlePulled(terms, operation.push.pull_into, *chunk,
                               pushed->pulled(), message.payload));
  chunk->pulled = true;
  return absl::OkStatus();
}

}  // namespace paramd
