#include "server/core/content_pulls.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "server/core/fetch_rows.h"
#include "server/core/shard_content.h"
#include "tensor/packed_numbers.h"

namespace paramd {
namespace {

// Of one block in the head of a reply, with room to spare.
constexpr size_t kHeadBytesPerBlock = 48;
// The same where only rows of it are sent.
constexpr size_t kHeadBytesPerRowBlock = 20;

}  // namespace

absl::Status ContentPulls::Pull(const v1::PullRequest& request,
                                const BufferChain& names, v1::PullReply* reply,
                                BufferChain* payload) {
  ASSIGN_OR_RETURN(const NumberFormat format,
                   CheckEncoding(request.encoding()));
  uint64_t bytes = kHeadBytesPerBlock;
  RETURN_IF_ERROR(PullBlocks(request, format, &bytes, reply, payload));
  RETURN_IF_ERROR(PullRows(request, names, format, &bytes, reply, payload));
  reply->set_encoding(request.encoding());
  ++count_;
  return absl::OkStatus();
}

absl::Status ContentPulls::CheckReply(const v1::PullRequest& request,
                                      uint64_t bytes) const {
  if (bytes <= max_reply_bytes_) return absl::OkStatus();
  return Refuse(
      v1::Refusal::OVER_LIMIT, "pull",
      absl::StrCat("the ", request.blocks_size() + request.rows().rows_size(),
                   " blocks of this pull have more than ", max_reply_bytes_,
                   " bytes; pull fewer at a time"));
}

absl::Status ContentPulls::PullBlocks(const v1::PullRequest& request,
                                      NumberFormat format, uint64_t* bytes,
                                      v1::PullReply* reply,
                                      BufferChain* payload) {
  reply->mutable_blocks()->Reserve(request.blocks_size());
  payload->reserve(request.blocks_size() + 1);
  for (const v1::PullBlock& wanted : request.blocks()) {
    ASSIGN_OR_RETURN(Slice* const slice,
                     content_.Find(wanted.slice(), wanted.block()));
    const Block& block = slice->block(static_cast<int>(wanted.block()));
    const v1::BlockVersion version = block.version();
    v1::PulledBlock* const pulled = reply->add_blocks();
    pulled->set_slice(wanted.slice());
    pulled->set_block(wanted.block());
    *pulled->mutable_version() = version;
    *bytes += kHeadBytesPerBlock;
    if (wanted.known().life() != version.life() ||
        wanted.known().counter() != version.counter()) {
      pulled->set_elements(static_cast<uint32_t>(block.elements()));
      ASSIGN_OR_RETURN(Buffer encoded, request.takes_packed()
                                           ? Pack(*slice, block, format, pulled)
                                           : Encode(*slice, block, format));
      payload->push_back(std::move(encoded));
      *bytes += payload->back().size();
    }
    RETURN_IF_ERROR(CheckReply(request, *bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Buffer> ContentPulls::Encode(const Slice& slice,
                                            const Block& block,
                                            NumberFormat format) {
  return Encode(Decoded(block.values(), slice.value_format()), format);
}

absl::StatusOr<Buffer> ContentPulls::Pack(const Slice& slice,
                                          const Block& block,
                                          NumberFormat format,
                                          v1::PulledBlock* pulled) {
  const auto pruned = slice.options().pruning;
  if (!pruned.has_value() ||
      !content_.optimizer().pruning()[*pruned].HasBegun(block.applied())) {
    return Encode(slice, block, format);
  }
  const std::pair<uint32_t, uint32_t> place = {pulled->slice(),
                                               pulled->block()};
  auto known = packed_.find(place);
  if (known != packed_.end() && (known->second.life != block.life() ||
                                 known->second.counter != block.applied() ||
                                 known->second.format != format)) {
    packed_.erase(known);  // Its memory may be what the next one needs.
    known = packed_.end();
  }
  if (known == packed_.end()) {
    ASSIGN_OR_RETURN(PackedBlock packed, MakePacked(block, format));
    known = packed_.emplace(place, std::move(packed)).first;
  }
  if (known->second.bytes.empty()) return Encode(slice, block, format);
  pulled->set_nonzero(known->second.nonzero);
  return known->second.bytes;
}

absl::StatusOr<ContentPulls::PackedBlock> ContentPulls::MakePacked(
    const Block& block, NumberFormat format) {
  const size_t elements = block.elements();
  const auto* const values =
      reinterpret_cast<const float*>(block.values().bytes().data());
  const size_t nonzero = CountNonzero(values, elements);
  PackedBlock packed = {.life = block.life(),
                        .counter = block.applied(),
                        .format = format,
                        .nonzero = static_cast<uint32_t>(nonzero),
                        .bytes = {}};
  const uint64_t bytes = PackedBytes(format, elements, nonzero);
  // As they are, float32 need no memory.
  if (!IsWorthPacking(format, elements, nonzero) ||
      (format == NumberFormat::kFp32 &&
       !content_.HasRoom([bytes] { return bytes; }))) {
    return packed;
  }
  ASSIGN_OR_RETURN(packed.bytes, AllocateReply(bytes));
  PackNumbers(format, values, elements, packed.bytes.mutable_bytes().data());
  return packed;
}

absl::StatusOr<std::vector<ContentPulls::WantedRows>> ContentPulls::FindRows(
    const v1::RowBlocks& rows) const {
  RETURN_IF_ERROR(CheckColumns(rows));
  std::vector<WantedRows> wanted;
  wanted.reserve(rows.rows_size());
  for (int i = 0; i < rows.rows_size(); ++i) {
    ASSIGN_OR_RETURN(Slice* const slice,
                     content_.Find(rows.slices(i), rows.blocks(i)));
    RETURN_IF_ERROR(CheckSparse(*slice, rows.blocks(i)));
    wanted.push_back({slice, static_cast<int>(rows.blocks(i)), rows.rows(i)});
  }
  return wanted;
}

// All of them into one buffer.
absl::Status ContentPulls::PullRows(const v1::PullRequest& request,
                                    const BufferChain& names,
                                    NumberFormat format, uint64_t* bytes,
                                    v1::PullReply* reply,
                                    BufferChain* payload) {
  ASSIGN_OR_RETURN(std::vector<WantedRows> wanted, FindRows(request.rows()));
  uint64_t name_bytes = 0;
  uint64_t elements = 0;
  for (const WantedRows& some : wanted) {
    name_bytes += some.rows * some.slice->row_id_bytes();
    elements += some.rows * some.slice->row_elements();
  }
  if (name_bytes != ChainSize(names)) {
    return Invalid("payload",
                   absl::StrCat("pull has ", ChainSize(names),
                                " bytes of names of rows; the rows that it "
                                "counts have ",
                                name_bytes));
  }
  if (wanted.empty()) return absl::OkStatus();
  *bytes += wanted.size() * kHeadBytesPerRowBlock + elements * BytesOf(format);
  RETURN_IF_ERROR(CheckReply(request, *bytes));
  RETURN_IF_ERROR(ReadNames(names, &wanted));
  if (disk_ != nullptr && disk_->WaitsLately()) {
    ReadAhead(wanted);
  }
  ASSIGN_OR_RETURN(Buffer copy, AllocateReply(elements * sizeof(float)));
  CopyRows(wanted, reinterpret_cast<float*>(copy.mutable_bytes().data()));
  ASSIGN_OR_RETURN(Buffer encoded, Encode(copy, format));
  payload->push_back(std::move(encoded));
  v1::BlockVersions* const versions = reply->mutable_row_versions();
  versions->mutable_lives()->Reserve(static_cast<int>(wanted.size()));
  versions->mutable_counters()->Reserve(static_cast<int>(wanted.size()));
  for (const WantedRows& some : wanted) {
    const Block& block = some.slice->block(some.block);
    versions->add_lives(block.life());
    versions->add_counters(block.applied());
  }
  return absl::OkStatus();
}

absl::Status ContentPulls::ReadNames(const BufferChain& names,
                                     std::vector<WantedRows>* wanted) {
  ids_.Clear();
  ChainReader reader(names);
  for (WantedRows& some : *wanted) {
    ASSIGN_OR_RETURN(some.first_id,
                     ids_.Read(*some.slice, some.block, some.rows, &reader));
  }
  return absl::OkStatus();
}

void ContentPulls::CopyRows(const std::vector<WantedRows>& wanted, float* out) {
  size_t fetched = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i == fetched) fetched = FetchSome(wanted, i, ids_, /*pushes=*/nullptr);
    const auto& [slice, block, rows, first_id] = wanted[i];
    slice->block(block).CopyRows(ids_.At(*slice, first_id, rows), out,
                                 &slice->table_counts());
    out += rows * slice->row_elements();
  }
}

void ContentPulls::ReadAhead(const std::vector<WantedRows>& wanted) {
  std::vector<absl::Span<const std::byte>> pieces;
  for (const auto& [slice, block, rows, first_id] : wanted) {
    if (slice->placement().fast_rows == 0) continue;
    slice->block(block).AddSlowRows(ids_.At(*slice, first_id, rows), &pieces);
  }
  DiskMemory::ReadAhead(pieces);
}

absl::StatusOr<Buffer> ContentPulls::AllocateReply(uint64_t bytes) {
  RETURN_IF_ERROR(content_.MakeRoom("a pull", [bytes] { return bytes; }));
  return content_.memory() == nullptr
             ? Buffer::Allocate(bytes)
             : content_.memory()->account().Allocate(bytes);
}

absl::StatusOr<Buffer> ContentPulls::Encode(const Buffer& values,
                                            NumberFormat format) {
  if (format == NumberFormat::kFp32) return values;
  const size_t count = values.size() / sizeof(float);
  ASSIGN_OR_RETURN(Buffer encoded, AllocateReply(count * BytesOf(format)));
  EncodeNumbers(format, reinterpret_cast<const float*>(values.bytes().data()),
                count, encoded.mutable_bytes().data());
  return encoded;
}

}  // namespace paramd
