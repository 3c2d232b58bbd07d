#include "server/core/row_numbers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "config/wire_format.h"
#include "proto/refusal.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// Reads `count` more; what is wrong with them, or nothing.
template <typename Id>
std::string ReadAscending(uint32_t count, ChainReader* reader,
                          std::vector<Id>* ids) {
  // Memory for few is taken before it is known that they are there.
  constexpr uint32_t kFew = 1024;
  const size_t first = ids->size();
  if (count > kFew && reader->remaining() < count * sizeof(Id)) {
    return "and its payload ends before their numbers";
  }
  ids->resize(first + count);
  const auto read = absl::MakeSpan(*ids).subspan(first);
  if (!reader->Read(AsWritableBytes(read))) {
    return "and its payload ends before their numbers";
  }
  for (uint32_t i = 1; i < count; ++i) {
    if (read[i] > read[i - 1]) continue;
    return absl::StrCat("of which ", read[i], " comes after ", read[i - 1],
                        "; they must ascend");
  }
  return "";
}

absl::Status Wrong(const Slice& slice, int block, uint32_t count,
                   absl::string_view what) {
  return Refuse(v1::Refusal::INVALID, slice.variable().name(),
                absl::StrCat("chunk names ", count, " rows of block ", block,
                             " of '", slice.TensorName(), "', ", what));
}

}  // namespace

void RowIdList::Clear() {
  numbers_.clear();
  keys_.clear();
}

RowIds RowIdList::At(const Slice& slice, size_t place, uint32_t count) const {
  RowIds ids;
  ids.all = !slice.sparse();
  ids.width = slice.row_elements();
  ids.rules = slice.key_rules();
  if (ids.rules != nullptr) {
    ids.mixed = absl::MakeConstSpan(keys_).subspan(place, count);
  } else {
    ids.numbers = absl::MakeConstSpan(numbers_).subspan(place, count);
  }
  return ids;
}

absl::StatusOr<size_t> RowIdList::Read(const Slice& slice, int block,
                                       uint32_t count, ChainReader* reader) {
  if (slice.keyed()) {
    const size_t first = keys_.size();
    const std::string wrong = ReadAscending(count, reader, &keys_);
    if (!wrong.empty()) return Wrong(slice, block, count, wrong);
    if (count == 0) return first;
    // Those between them are of blocks between theirs.
    const uint64_t width = slice.row_elements();
    const uint64_t buckets = BucketCount(slice.variable().shape(0), width);
    const uint64_t bucket = slice.rows().begin / BucketRows(width) + block;
    for (const uint64_t key : {keys_[first], keys_.back()}) {
      if (BucketOf(key, buckets) != bucket) {
        return Wrong(slice, block, count,
                     absl::StrCat("of which ", key, " is another block's"));
      }
    }
    return first;
  }
  const uint64_t rows = slice.block_elements(block) / slice.row_elements();
  if (count > rows) {
    return Wrong(slice, block, count, absl::StrCat("which has ", rows));
  }
  const size_t first = numbers_.size();
  const std::string wrong = ReadAscending(count, reader, &numbers_);
  if (!wrong.empty()) return Wrong(slice, block, count, wrong);
  if (count > 0 && numbers_.back() >= rows) {
    return Wrong(slice, block, count,
                 absl::StrCat("of which one is ", numbers_.back(),
                              "; the block has ", rows));
  }
  return first;
}

absl::Status CheckSparse(const Slice& slice, uint32_t block) {
  if (slice.sparse()) return absl::OkStatus();
  const std::string& name = slice.variable().name();
  return Refuse(v1::Refusal::INVALID, name,
                absl::StrCat("chunk names rows of block ", block, " of '",
                             slice.TensorName(), "', which is not sparse"));
}

absl::StatusOr<NumberFormat> CheckEncoding(v1::Encoding encoding) {
  const auto format = FormatOf(encoding);
  if (format.has_value()) return *format;
  return Invalid("encoding",
                 absl::StrCat("encoding ", static_cast<int>(encoding),
                              " is unknown here; known are FP32, BF16, FP16"));
}

absl::Status CheckColumns(const v1::RowBlocks& rows) {
  if (rows.slices_size() == rows.blocks_size() &&
      rows.slices_size() == rows.rows_size()) {
    return absl::OkStatus();
  }
  return Refuse(
      v1::Refusal::INVALID, "rows",
      absl::StrCat("rows are named of ", rows.slices_size(), " slices, ",
                   rows.blocks_size(), " blocks and ", rows.rows_size(),
                   " counts: each block needs one of each"));
}

}  // namespace paramd
