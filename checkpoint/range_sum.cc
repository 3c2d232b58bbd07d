#include "checkpoint/range_sum.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "base/crc32c.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr size_t kSummedBytes = size_t{4} << 20;

}  // namespace

void RangeSum::Add(uint64_t begin, absl::Span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const uint64_t end = begin + bytes.size();
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < end) return;
  Range* before = nullptr;
  if (next != ranges_.begin()) before = &std::prev(next)->second;
  if (before != nullptr && before->end > begin) return;
  bytes_ += bytes.size();
  if (before != nullptr && before->end == begin) {
    *before = {end, Crc32c(bytes, before->crc32c)};
  } else {
    ranges_.emplace_hint(next, begin, Range{end, Crc32c(bytes)});
  }
}

absl::StatusOr<FileSum> RangeSum::Finish(
    const ReadableFile& file,
    const std::function<void(uint64_t bytes)>& progress) {
  FileSum sum;
  sum.bytes = file.size();
  uint64_t at = 0;
  std::vector<std::byte> piece;
  auto next = ranges_.begin();
  while (at < file.size()) {
    if (next != ranges_.end() && next->first == at) {
      const Range& range = next->second;
      sum.crc32c = Crc32cOfBoth(sum.crc32c, range.crc32c, range.end - at);
      at = range.end;
      ++next;
      continue;
    }
    const uint64_t end = next == ranges_.end() ? file.size() : next->first;
    piece.resize(std::min<uint64_t>(kSummedBytes, end - at));
    RETURN_IF_ERROR(file.ReadAt(at, absl::MakeSpan(piece)));
    sum.crc32c = Crc32c(piece, sum.crc32c);
    at += piece.size();
    if (progress) progress(piece.size());
  }
  return sum;
}

}  // namespace paramd
