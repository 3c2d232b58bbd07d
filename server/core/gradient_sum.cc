#include "server/core/gradient_sum.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "base/check.h"

namespace paramd {
namespace {

// Vectorised: so many elements at a time are copied to where they are aligned.
constexpr size_t kRun = 256;

}  // namespace

void GradientSum::Add(BufferChain gradient, SpareBuffers* spare) {
  const size_t bytes = ChainSize(gradient);
  if (bytes == 0) return;
  if (empty()) {
    chain_ = std::move(gradient);
    size_ = bytes;
    return;
  }
  if (row_id_bytes_ == sizeof(uint32_t)) {
    return AddRows<uint32_t>(gradient, spare);
  }
  if (row_id_bytes_ == sizeof(uint64_t)) {
    return AddRows<uint64_t>(gradient, spare);
  }
  CHECK(bytes == size_, "gradients of one block have one size");
  float* const sum = Writable(spare);
  ChainReader reader(gradient);
  const size_t elements = bytes / sizeof(float);
  float run[kRun];
  for (size_t begin = 0; begin < elements; begin += kRun) {
    const size_t count = std::min(kRun, elements - begin);
    reader.Read(AsWritableBytes(absl::MakeSpan(run, count)));
    for (size_t i = 0; i < count; ++i) sum[begin + i] += run[i];
  }
}

// A row that one of the two has not is as it is in the other, to the bit.
template <typename Id>
void GradientSum::AddRows(const BufferChain& gradient, SpareBuffers* spare) {
  const size_t width = row_elements_;
  const size_t old_count = RowsIn(size_);
  const size_t new_count = RowsIn(ChainSize(gradient));
  const auto* const old_rows = reinterpret_cast<const Id*>(Writable(spare));
  const auto* old_values = reinterpret_cast<const float*>(old_rows + old_count);
  ChainReader reader(gradient);
  std::vector<Id> new_rows(new_count);
  reader.Read(AsWritableBytes(absl::MakeSpan(new_rows)));
  std::vector<Id> rows;
  rows.reserve(old_count + new_count);
  std::set_union(old_rows, old_rows + old_count, new_rows.begin(),
                 new_rows.end(), std::back_inserter(rows));

  const size_t size = rows.size() * (sizeof(Id) + width * sizeof(float));
  Buffer sum = spare->Take(size);
  std::memcpy(sum.mutable_bytes().data(), rows.data(),
              rows.size() * sizeof(Id));
  auto* out = reinterpret_cast<float*>(sum.mutable_bytes().data() +
                                       rows.size() * sizeof(Id));
  std::vector<float> added(width);
  const Id* old_row = old_rows;
  auto new_row = new_rows.begin();
  for (const Id row : rows) {
    const bool is_new = new_row != new_rows.end() && *new_row == row;
    const bool is_old = old_row != old_rows + old_count && *old_row == row;
    if (is_new) {
      reader.Read(AsWritableBytes(absl::MakeSpan(added)));
      ++new_row;
    }
    for (size_t i = 0; i < width; ++i) {
      out[i] = !is_old  ? added[i]
               : is_new ? old_values[i] + added[i]
                        : old_values[i];
    }
    if (is_old) {
      ++old_row;
      old_values += width;
    }
    out += width;
  }
  chain_ = {std::move(sum)};
  size_ = size;
}

void GradientSum::Scale(float factor, SpareBuffers* spare) {
  if (empty()) return;
  float* const sum = Writable(spare);
  const size_t ids = row_elements_ > 0 ? RowsIn(size_) * row_id_bytes_ : 0;
  for (size_t i = ids / sizeof(float); i < size_ / sizeof(float); ++i) {
    sum[i] *= factor;
  }
}

// What rows lay in is of a size that does not come again.
void GradientSum::Clear(SpareBuffers* spare) {
  if (own_ && row_elements_ == 0) spare->Give(std::move(chain_[0]));
  chain_.clear();
  size_ = 0;
  own_ = false;
}

float* GradientSum::Writable(SpareBuffers* spare) {
  if (!own_) {
    Buffer buffer = spare->Take(size_);
    ChainReader(chain_).Read(buffer.mutable_bytes());
    chain_ = {std::move(buffer)};
    own_ = true;
  }
  return reinterpret_cast<float*>(chain_[0].mutable_bytes().data());
}

}  // namespace paramd
