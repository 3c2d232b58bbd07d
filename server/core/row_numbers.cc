#include "server/core/row_numbers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// What is wrong with ids that were received, or nothing.
template <typename Id>
std::string ReadAscending(uint32_t count, ChainReader* reader,
                          std::vector<Id>* ids) {
  if (reader->remaining() < count * sizeof(Id)) {
    return "and its payload ends before their numbers";
  }
  ids->resize(count);
  reader->Read(AsWritableBytes(absl::MakeSpan(*ids)));
  for (uint32_t i = 1; i < count; ++i) {
    if ((*ids)[i] > (*ids)[i - 1]) continue;
    return absl::StrCat("of which ", (*ids)[i], " comes behind ", (*ids)[i - 1],
                        "; they must ascend");
  }
  return "";
}

// Of all rows of the variable, the first one of the block.
uint64_t FirstRow(const Slice& slice, int block) {
  return slice.rows().begin +
         static_cast<uint64_t>(block) * BucketRows(slice.row_elements());
}

}  // namespace

absl::StatusOr<RowIds> ReadRowIds(const Slice& slice, int block, uint32_t count,
                                  ChainReader* reader) {
  const auto refuse = [&](absl::string_view what) {
    return Refuse(v1::Refusal::INVALID, slice.variable().name(),
                  absl::StrCat("chunk names ", count, " rows of block ", block,
                               " of '", slice.TensorName(), "', ", what));
  };
  if (!slice.sparse()) return refuse("which is not sparse");
  RowIds ids;
  if (slice.keyed()) {
    const std::string wrong = ReadAscending(count, reader, &ids.keys);
    if (!wrong.empty()) return refuse(wrong);
    if (count == 0) return ids;
    // Those between them are of blocks between theirs.
    for (const uint64_t key : {ids.keys.front(), ids.keys.back()}) {
      if (BucketBegin(key, slice.variable().shape(0), slice.row_elements()) !=
          FirstRow(slice, block)) {
        return refuse(absl::StrCat("of which ", key, " is another block's"));
      }
    }
    return ids;
  }
  const uint64_t rows = slice.block_elements(block) / slice.row_elements();
  if (count > rows) return refuse(absl::StrCat("which has ", rows));
  const std::string wrong = ReadAscending(count, reader, &ids.numbers);
  if (!wrong.empty()) return refuse(wrong);
  if (count > 0 && ids.numbers.back() >= rows) {
    return refuse(absl::StrCat("of which one is ", ids.numbers.back(),
                               "; the block has ", rows));
  }
  return ids;
}

}  // namespace paramd
