#ifndef PARAMD_TENSOR_PACKED_NUMBERS_H_
#define PARAMD_TENSOR_PACKED_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

#include "tensor/buffer.h"
#include "tensor/number_format.h"

namespace paramd {

// Float32 of which many are zero, packed: a bit for each of them, the first one
// the lowest of the first byte, and after these bits, in some format, the
// numbers whose bit is set. It is not set if all 32 bits of a number are zero:
// -0 travels, and what is read has the same bits as if all had travelled.

// How many numbers have a bit that is set.
size_t CountNonzero(const float* numbers, size_t count);

constexpr size_t BitmapBytes(size_t count) { return (count + 7) / 8; }

constexpr size_t PackedBytes(NumberFormat format, size_t count,
                             size_t nonzero) {
  return BitmapBytes(count) + nonzero * BytesOf(format);
}

// Whether it takes at most three quarters of what the numbers take as they are:
// to pack and unpack them costs time at both ends.
constexpr bool IsWorthPacking(NumberFormat format, size_t count,
                              size_t nonzero) {
  return 4 * PackedBytes(format, count, nonzero) <= 3 * count * BytesOf(format);
}

// Writes `count` numbers packed, to any address. REQUIRES: there is room for
// PackedBytes of CountNonzero.
void PackNumbers(NumberFormat format, const float* numbers, size_t count,
                 std::byte* out);

// The bits in front of packed numbers.
class Bitmap {
 public:
  // Reads the bits of `count` numbers. REQUIRES: BitmapBytes(count) remain.
  Bitmap(ChainReader* reader, size_t count);

  // How many are set.
  size_t nonzero() const { return nonzero_; }
  // Whether bits are set after those of the numbers.
  bool IsTooLong() const;

  // Calls use(numbers, offset, length) for runs that stay in the first cache,
  // which together are all numbers; reads those that are not zero, in this
  // format. REQUIRES: nonzero() of them remain; it is not too long.
  using Use = absl::FunctionRef<void(const float* numbers, size_t offset,
                                     size_t length)>;
  void ForEachRun(ChainReader* reader, NumberFormat format, Use use) const;

 private:
  size_t count_;
  size_t nonzero_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_PACKED_NUMBERS_H_
