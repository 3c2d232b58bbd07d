#include "server/core/row_numbers.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "proto/refusal.h"

namespace paramd {

absl::StatusOr<std::vector<uint32_t>> ReadRowNumbers(const Slice& slice,
                                                     int block, uint32_t count,
                                                     ChainReader* reader) {
  const auto refuse = [&](absl::string_view what) {
    return Refuse(v1::Refusal::INVALID, slice.variable().name(),
                  absl::StrCat("chunk names ", count, " rows of block ", block,
                               " of '", slice.TensorName(), "', ", what));
  };
  if (!slice.sparse()) return refuse("which is not sparse");
  const uint64_t rows = slice.block_elements(block) / slice.row_elements();
  if (count > rows) return refuse(absl::StrCat("which has ", rows));
  std::vector<uint32_t> numbers(count);
  if (!reader->Read(AsWritableBytes(absl::MakeSpan(numbers)))) {
    return refuse("and its payload ends before their numbers");
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (i > 0 && numbers[i] <= numbers[i - 1]) {
      return refuse(absl::StrCat("of which ", numbers[i], " comes behind ",
                                 numbers[i - 1], "; they must ascend"));
    }
  }
  if (count > 0 && numbers.back() >= rows) {
    return refuse(absl::StrCat("of which one is ", numbers.back(),
                               "; the block has ", rows));
  }
  return numbers;
}

}  // namespace paramd
