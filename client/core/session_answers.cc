// What servers answer to a session.
#include <string>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "client/core/session.h"
#include "config/wire_format.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "tensor/number_reader.h"
#include "tensor/packed_numbers.h"

namespace paramd {

absl::Status Session::HandleAnswer(Operation* operation, Chunk* chunk,
                                   const Message& message,
                                   absl::Duration time) {
  const auto* pulled =
      google::protobuf::DynamicCastToGenerated<v1::PullReply>(message.head);
  const auto* pushed =
      google::protobuf::DynamicCastToGenerated<v1::PushReply>(message.head);
  if (pulled != nullptr && !operation->is_push()) {
    NotePullTime(chunk->server, time);
    return operation->into != nullptr
               ? HandlePulled(operation->into, *chunk, *pulled, message.payload)
               : HandleRows(operation->lookup, *chunk, *pulled,
                            message.payload);
  }
  if (pushed == nullptr || !operation->is_push()) {
    return absl::InvalidArgumentError(
        absl::StrCat(PeerName(message.from), " answered another method"));
  }
  RETURN_IF_ERROR(HandlePushed(*operation, *chunk, *pushed));
  if (operation->push.pull_into == nullptr || !pushed->has_pulled()) {
    return absl::OkStatus();
  }
  NotePullTime(chunk->server, time);
  RETURN_IF_ERROR(HandlePulled(operation->push.pull_into, *chunk,
                               pushed->pulled(), message.payload));
  chunk->pulled = true;
  return absl::OkStatus();
}

absl::Status Session::HandlePulled(Weights* into, const Chunk& chunk,
                                   const v1::PullReply& reply,
                                   const BufferChain& payload) {
  // Checked whole before the first element is copied.
  RETURN_IF_ERROR(CheckAnswerer(chunk.server, reply.incarnation()));
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
            : placement_.slices()[id.slice].block_elements(id.block)));
    const v1::BlockVersion& held = into->version(id.slice, id.block);
    // Memory that is lent holds no version for sure: none was asked about.
    if (block.elements() == 0 &&
        (into->is_lent(placement_.slices()[id.slice].variable) ||
         held.life() == 0 || held.life() != block.version().life() ||
         held.counter() != block.version().counter())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a pull's answer says that block ", id.block, " of slice ", id.slice,
          " has not changed, which is not the version that is held here"));
    }
    ASSIGN_OR_RETURN(const uint64_t block_bytes, PayloadBytes(block));
    bytes += block_bytes;
  }
  RETURN_IF_ERROR(CheckPayload(reply, bytes, payload));
  if (options_.takes_packed) RETURN_IF_ERROR(CheckBitmaps(reply, payload));
  ChainReader chain(payload);
  const NumberReader reader(&chain, options_.pull_format);
  for (const v1::PulledBlock& block : reply.blocks()) {
    if (block.elements() == 0) continue;
    const PlacedSlice& slice = placement_.slices()[block.slice()];
    if (block.has_nonzero()) {
      into->SetPacked(slice, block, options_.pull_format, &chain);
    } else {
      into->Set(slice, block.slice(), block.block(), block.version(), reader);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Session::PayloadBytes(
    const v1::PulledBlock& block) const {
  if (!block.has_nonzero()) {
    return block.elements() * BytesOf(options_.pull_format);
  }
  if (!options_.takes_packed) {
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
  return PackedBytes(options_.pull_format, block.elements(), block.nonzero());
}

absl::Status Session::CheckBitmaps(const v1::PullReply& reply,
                                   const BufferChain& payload) const {
  ChainReader chain(payload);
  const NumberReader reader(&chain, options_.pull_format);
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

absl::Status Session::HandleRows(SparseRows* rows, const Chunk& chunk,
                                 const v1::PullReply& reply,
                                 const BufferChain& payload) {
  RETURN_IF_ERROR(CheckAnswerer(chunk.server, reply.incarnation()));
  const int blocks = static_cast<int>(chunk.blocks.size());
  if (reply.row_versions().lives_size() != blocks ||
      reply.row_versions().counters_size() != blocks) {
    return absl::UnavailableError("a lookup's answer has not all blocks");
  }
  const auto groups = GroupRows(placement_, chunk.blocks, chunk.rows);
  uint64_t elements = 0;
  for (const RowGroup& group : groups) {
    elements += group.rows.size() * placement_.row_elements()[group.variable];
  }
  RETURN_IF_ERROR(
      CheckPayload(reply, elements * BytesOf(options_.pull_format), payload));
  ChainReader chain(payload);
  rows->Set(placement_, groups, NumberReader(&chain, options_.pull_format));
  rows->SetVersions(chunk.blocks, reply.row_versions());
  return absl::OkStatus();
}

absl::Status Session::CheckPulled(const v1::PulledBlock& block,
                                  const BlockId& id, uint64_t elements) const {
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

absl::Status Session::CheckPayload(const v1::PullReply& reply, uint64_t bytes,
                                   const BufferChain& payload) const {
  const v1::Encoding encoding = EncodingOf(options_.pull_format);
  if (bytes == ChainSize(payload) &&
      (bytes == 0 || reply.encoding() == encoding)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a pull's answer has ", ChainSize(payload), " bytes of encoding ",
      static_cast<int>(reply.encoding()), "; its blocks need ", bytes,
      " of encoding ", static_cast<int>(encoding)));
}

absl::Status Session::CheckAnswerer(uint32_t server,
                                    uint64_t incarnation) const {
  if (incarnation == configuration_.incarnations[server]) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      NameOfServer(server), " is process ",
      absl::Hex(configuration_.incarnations[server], absl::kZeroPad16),
      " in configuration ", VersionName(configuration_.version), "; process ",
      absl::Hex(incarnation, absl::kZeroPad16), " answered"));
}

absl::Status Session::NotSentByUs(const Operation& operation,
                                  const Chunk& chunk) const {
  return Refuse(
      v1::Refusal::SUPERSEDED, NameOfServer(chunk.server),
      absl::StrCat(NameOfServer(chunk.server), " holds push ",
                   operation.push.sequence, " of ",
                   WorkerName(options_.worker, configuration_.generation),
                   " or a later one, which it cannot have from there: another "
                   "process pushes as this session"));
}

absl::Status Session::HandlePushed(const Operation& operation,
                                   const Chunk& chunk,
                                   const v1::PushReply& reply) {
  RETURN_IF_ERROR(CheckAnswerer(chunk.server, reply.incarnation()));
  if (reply.server_generation() !=
      configuration_.server_generations[chunk.server]) {
    return absl::UnavailableError(absl::StrCat(
        "ps-", chunk.server, " answered for another of its lives"));
  }
  ASSIGN_OR_RETURN(const size_t answered,
                   CountAnswered(operation, chunk, reply));
  if (answered != chunk.blocks.size()) {
    return absl::UnavailableError(
        absl::StrCat("ps-", chunk.server, " answered for ", answered, " of ",
                     chunk.blocks.size(), " blocks"));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> Session::CountAnswered(
    const Operation& operation, const Chunk& chunk,
    const v1::PushReply& reply) const {
  const auto is_anothers = [&](int result) {
    return !chunk.may_be_in && (result == v1::PushedBlock::ALREADY_APPLIED ||
                                result == v1::PushedBlock::SUPERSEDED);
  };
  size_t answered = 0;
  if (!chunk.rows.empty()) {
    for (const int result : reply.row_results()) {
      if (is_anothers(result)) return NotSentByUs(operation, chunk);
      if (result == v1::PushedBlock::RESULT_UNSPECIFIED) break;
      ++answered;
    }
    return answered;
  }
  for (const v1::PushedBlock& block : reply.blocks()) {
    if (answered == chunk.blocks.size()) break;
    if (is_anothers(block.result())) return NotSentByUs(operation, chunk);
    const BlockId& id = chunk.blocks[answered];
    if (block.slice() == id.slice && block.block() == id.block &&
        block.result() != v1::PushedBlock::RESULT_UNSPECIFIED) {
      ++answered;
    }
  }
  return answered;
}

}  // namespace paramd
