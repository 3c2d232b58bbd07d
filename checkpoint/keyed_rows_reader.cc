#include "checkpoint/keyed_rows_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/initial_values.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// At a time: 16 MiB of values.
constexpr int kMostBuckets = 16;

// Rows of one variable, and where to put those of the keys.
class KeyedRows {
 public:
  KeyedRows(const v1::Variable& variable, absl::Span<const uint64_t> keys)
      : variable_(variable),
        keys_(keys),
        rows_(variable.shape(0)),
        width_(variable.shape(1)),
        values_(keys.size() * width_) {}

  void Begin(uint64_t seed) {
    const InitialValues initial(variable_, seed);
    for (size_t i = 0; i < keys_.size(); ++i) {
      initial.FillRow(UnmixKey(keys_[i]), ValuesOf(i));
    }
  }

  // Wants the next buckets that a key belongs to; false: there are none.
  bool AddNext(v1::ReadSlices* request) {
    while (next_ < keys_.size() && request->slices_size() < kMostBuckets) {
      const uint64_t begin = BucketBegin(keys_[next_], rows_, width_);
      while (next_ < keys_.size() &&
             BucketBegin(keys_[next_], rows_, width_) == begin) {
        ++next_;
      }
      v1::ReadSlices::Want* const want = request->add_slices();
      want->set_variable(variable_.name());
      *want->mutable_shape() = variable_.shape();
      want->set_row_begin(begin);
      want->set_row_end(std::min(rows_, begin + BucketRows(width_)));
      want->set_sparse(true);
      want->set_keyed(true);
    }
    return !request->slices().empty();
  }

  // False if `reader` ends before the rows of this slice.
  bool Take(const v1::ReadSlices::Want& slice, ChainReader* reader) {
    const uint64_t rows = slice.row_end() - slice.row_begin();
    std::vector<float> values(rows * width_);
    std::vector<uint64_t> keys(rows);
    std::vector<int64_t> used(rows);
    if (!reader->Read(AsWritableBytes(absl::MakeSpan(values))) ||
        !reader->Read(AsWritableBytes(absl::MakeSpan(keys))) ||
        !reader->Read(AsWritableBytes(absl::MakeSpan(used)))) {
      return false;
    }
    for (uint64_t row = 0; row < rows; ++row) {
      if (used[row] == 0) continue;
      const uint64_t key = MixKey(keys[row]);
      const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
      if (found == keys_.end() || *found != key) continue;
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(row * width_), width_,
                  ValuesOf(found - keys_.begin()).begin());
    }
    return true;
  }

  std::vector<float> TakeValues() { return std::move(values_); }

 private:
  absl::Span<float> ValuesOf(size_t key) {
    return absl::MakeSpan(values_).subspan(key * width_, width_);
  }

  const v1::Variable& variable_;
  const absl::Span<const uint64_t> keys_;
  const uint64_t rows_;
  const uint64_t width_;
  std::vector<float> values_;  // [keys, width]
  size_t next_ = 0;            // The first key whose bucket was not wanted yet.
};

}  // namespace

absl::StatusOr<std::vector<float>> ReadKeyedRows(
    RestoreReader* reader, const std::string& path,
    const v1::Variable& variable, uint64_t seed,
    absl::Span<const uint64_t> keys) {
  KeyedRows rows(variable, keys);
  rows.Begin(seed);
  for (;;) {
    v1::ReadSlices request;
    request.set_path(path);
    request.mutable_check()->set_alone(true);
    request.add_slots("key");
    request.add_slots("used");
    if (!rows.AddNext(&request)) return rows.TakeValues();
    v1::ReadSlicesResult result;
    BufferChain payload;
    RETURN_IF_ERROR(reader->Read(request, &result, &payload));
    ChainReader payload_reader(payload);
    for (const v1::ReadSlices::Want& slice : request.slices()) {
      if (rows.Take(slice, &payload_reader)) continue;
      return absl::DataLossError(
          absl::StrCat("'", path, "' has fewer rows of '", variable.name(),
                       "' than its manifest says"));
    }
  }
}

}  // namespace paramd
