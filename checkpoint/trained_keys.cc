#include "checkpoint/trained_keys.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/fast_rows.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// Of a table there, read at once.
constexpr uint64_t kKeysWindowBytes = uint64_t{4} << 20;

// Rows of each bucket of a variable, and how many there are.
struct Buckets {
  uint64_t rows;
  uint64_t count;
};

Buckets BucketsOf(uint64_t rows, uint64_t width) {
  const uint64_t bucket = std::min(rows, BucketRows(width));
  return {bucket, std::max<uint64_t>(1, rows / bucket)};
}

// With so many keys in buckets of so many rows, evenly spread as mixed keys
// are, none is likely to have more than it has rows: five standard deviations.
uint64_t RoomyCapacity(uint64_t keys, uint64_t bucket_rows) {
  if (keys <= bucket_rows) return keys;
  const auto rows = static_cast<double>(bucket_rows);
  const double mean = std::max(1.0, rows - 5 * std::sqrt(rows));
  const double buckets = static_cast<double>(keys) / mean;
  return static_cast<uint64_t>(std::ceil(buckets * rows));
}

absl::Status NoRoom(const TrainedTable& table, const v1::Variable& variable,
                    uint64_t keys, uint64_t fullest) {
  const Buckets buckets = BucketsOf(variable.shape(0), variable.shape(1));
  const uint64_t room = buckets.rows - SpareRowsOf(variable);
  const uint64_t all = room * buckets.count;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", table.tensor, "' has ", keys, " rows with a key",
      keys > all ? "" : absl::StrCat(", ", fullest, " of them in one bucket"),
      "; variable '", variable.name(), "' has room for ", all,
      keys > all ? "" : absl::StrCat(", ", room, " in a bucket"),
      ": give it a capacity of ",
      RoomyCapacity(keys, BucketRows(variable.shape(1)))));
}

struct FoundRow {
  uint64_t key;
  uint64_t used;
  size_t place;  // In BucketContent::values.
};

// What one bucket gets, in the order in which it lies there.
struct BucketContent {
  std::vector<FoundRow> rows;
  std::vector<float> values;
};

// Adds those of the rows `window` there whose keys belong to the bucket that
// begins with row `begin` of a variable of `variable_rows`.
absl::Status AddFound(const TrainedTable& table, const RowRange& window,
                      uint64_t begin, uint64_t variable_rows,
                      TrainedTensors* tensors, BucketContent* content) {
  TrainedTensors::Keys keys;
  RETURN_IF_ERROR(tensors->ReadKeys({table.tensor, window}, &keys));
  std::vector<size_t> wanted;
  for (size_t i = 0; i < keys.keys.size(); ++i) {
    if (keys.used[i] != 0 && BucketBegin(MixKey(keys.keys[i]), variable_rows,
                                         table.width) == begin) {
      wanted.push_back(i);
    }
  }
  if (wanted.empty()) return absl::OkStatus();
  BufferChain chain;
  RETURN_IF_ERROR(ReadFinite({{table.tensor, window}}, tensors, &chain));
  std::vector<float> values(keys.keys.size() * table.width);
  ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(values)));
  for (const size_t i : wanted) {
    content->rows.push_back(
        {keys.keys[i], keys.used[i], content->values.size()});
    content->values.insert(content->values.end(),
                           values.begin() + i * table.width,
                           values.begin() + (i + 1) * table.width);
  }
  return absl::OkStatus();
}

absl::Status CheckKeysOnce(const TrainedTable& table,
                           absl::Span<const FoundRow> rows) {
  absl::flat_hash_set<uint64_t> seen;
  for (const FoundRow& row : rows) {
    if (seen.insert(row.key).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", table.tensor, "' has two rows of the key ", row.key));
  }
  return absl::OkStatus();
}

// One bucket's numbers, zeros where nothing is found.
struct BucketArrays {
  float* values;
  uint64_t* keys;
  uint64_t* used;
};

absl::Status ReadBucket(const TrainedTable& table, uint64_t bucket,
                        uint64_t variable_rows, TrainedTensors* tensors,
                        const BucketArrays& out) {
  const Buckets buckets = BucketsOf(variable_rows, table.width);
  const RowRange there =
      RowsWithKeysOf(bucket, buckets.count, table.rows, table.width);
  const uint64_t window =
      std::max<uint64_t>(1, kKeysWindowBytes / (table.width * sizeof(float)));
  BucketContent content;
  for (uint64_t row = there.begin; row < there.end; row += window) {
    RETURN_IF_ERROR(AddFound(table, {row, std::min(there.end, row + window)},
                             bucket * buckets.rows, variable_rows, tensors,
                             &content));
  }
  RETURN_IF_ERROR(CheckKeysOnce(table, content.rows));
  if (content.rows.size() > buckets.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", table.tensor, "' has ", content.rows.size(),
                     " rows for a bucket of ", buckets.rows));
  }
  std::stable_sort(
      content.rows.begin(), content.rows.end(),
      [](const FoundRow& a, const FoundRow& b) { return a.used < b.used; });
  for (size_t i = 0; i < content.rows.size(); ++i) {
    const FoundRow& row = content.rows[i];
    std::copy_n(content.values.begin() + row.place, table.width,
                out.values + i * table.width);
    out.keys[i] = row.key;
    out.used[i] = 1;
  }
  return absl::OkStatus();
}

// All bits zero.
Buffer Zeros(uint64_t bytes) {
  Buffer buffer = Buffer::Allocate(bytes);
  std::memset(buffer.mutable_bytes().data(), 0, bytes);
  return buffer;
}

}  // namespace

absl::StatusOr<uint64_t> CheckKeysFit(const TrainedTable& table,
                                      const v1::Variable& variable,
                                      TrainedTensors* tensors) {
  const uint64_t rows = variable.shape(0);
  const Buckets buckets = BucketsOf(rows, table.width);
  const uint64_t bucket_there = BucketsOf(table.rows, table.width).rows;
  std::vector<uint32_t> counts(buckets.count);
  uint64_t all = 0;
  TrainedTensors::Keys keys;
  constexpr uint64_t kAtOnce = kKeysWindowBytes / sizeof(uint64_t);
  for (uint64_t begin = 0; begin < table.rows; begin += kAtOnce) {
    const RowRange window = {begin, std::min(table.rows, begin + kAtOnce)};
    RETURN_IF_ERROR(tensors->ReadKeys({table.tensor, window}, &keys));
    for (size_t i = 0; i < keys.keys.size(); ++i) {
      if (keys.used[i] == 0) continue;
      const uint64_t mixed = MixKey(keys.keys[i]);
      const uint64_t row = begin + i;
      const uint64_t own = BucketBegin(mixed, table.rows, table.width);
      if (own != row / bucket_there * bucket_there) {
        return absl::InvalidArgumentError(absl::StrCat(
            "'", table.tensor, "' has the key ", keys.keys[i], " in row ", row,
            ", which belongs into rows [", own, ", ", own + bucket_there,
            "): it must lie as 'paramd checkpoint export' writes it"));
      }
      ++counts[BucketBegin(mixed, rows, table.width) / buckets.rows];
      ++all;
    }
  }
  const uint32_t fullest = *std::max_element(counts.begin(), counts.end());
  if (fullest > buckets.rows - SpareRowsOf(variable)) {
    return NoRoom(table, variable, all, fullest);
  }
  return all;
}

absl::Status ReadRowsByKey(const TrainedTable& table, uint64_t variable_rows,
                           RowRange rows, TrainedTensors* tensors,
                           BufferChain* out) {
  const Buckets buckets = BucketsOf(variable_rows, table.width);
  if (rows.begin % buckets.rows != 0 || rows.end % buckets.rows != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows [", rows.begin, ", ", rows.end,
                     ") are not whole buckets of ", buckets.rows));
  }
  const uint64_t count = rows.end - rows.begin;
  Buffer values = Zeros(count * table.width * sizeof(float));
  Buffer keys = Zeros(count * sizeof(uint64_t));
  Buffer used = Zeros(count * sizeof(uint64_t));
  BucketArrays place = {
      reinterpret_cast<float*>(values.mutable_bytes().data()),
      reinterpret_cast<uint64_t*>(keys.mutable_bytes().data()),
      reinterpret_cast<uint64_t*>(used.mutable_bytes().data())};
  for (uint64_t row = rows.begin; row < rows.end; row += buckets.rows) {
    RETURN_IF_ERROR(
        ReadBucket(table, row / buckets.rows, variable_rows, tensors, place));
    place.values += buckets.rows * table.width;
    place.keys += buckets.rows;
    place.used += buckets.rows;
  }
  for (Buffer* const part : {&values, &keys, &used}) {
    out->push_back(std::move(*part));
  }
  return absl::OkStatus();
}

}  // namespace paramd
