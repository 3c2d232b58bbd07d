#include "tensor/packed_numbers.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/types/span.h"

#include "base/check.h"
#include "tensor/number_reader.h"

namespace paramd {
namespace {

constexpr size_t kWordBits = 64;
constexpr size_t kRun = 1024;

// A bit for each of at most 64 numbers.
uint64_t BitsOf(const float* numbers, size_t count) {
  // Bytes, which all processors compute several at a time, and then by a
  // product the lowest bits of eight.
  uint8_t bytes[kWordBits] = {};
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = std::bit_cast<uint32_t>(numbers[i]) != 0 ? 1 : 0;
  }
  uint64_t bits = 0;
  for (size_t i = 0; i < kWordBits / 8; ++i) {
    uint64_t eight;
    std::memcpy(&eight, bytes + 8 * i, sizeof(eight));
    bits |= (eight * 0x0102040810204080) >> 56 << (8 * i);
  }
  return bits;
}

}  // namespace

size_t CountNonzero(const float* numbers, size_t count) {
  uint32_t nonzero = 0;
  for (size_t i = 0; i < count; ++i) {
    nonzero += std::bit_cast<uint32_t>(numbers[i]) != 0 ? 1 : 0;
  }
  return nonzero;
}

void PackNumbers(NumberFormat format, const float* numbers, size_t count,
                 std::byte* out) {
  std::byte* bits = out;
  out += BitmapBytes(count);
  for (size_t begin = 0; begin < count; begin += kWordBits) {
    const size_t length = std::min(kWordBits, count - begin);
    uint64_t word = length == kWordBits ? BitsOf(numbers + begin, kWordBits)
                                        : BitsOf(numbers + begin, length);
    std::memcpy(bits, &word, BitmapBytes(length));
    bits += BitmapBytes(length);
    float kept[kWordBits];
    size_t next = 0;
    for (; word != 0; word &= word - 1) {
      kept[next++] = numbers[begin + std::countr_zero(word)];
    }
    EncodeNumbers(format, kept, next, out);
    out += next * BytesOf(format);
  }
}

Bitmap::Bitmap(ChainReader* reader, size_t count)
    : count_(count), words_((count + kWordBits - 1) / kWordBits) {
  CHECK(reader->Read(
            AsWritableBytes(absl::MakeSpan(words_)).first(BitmapBytes(count))),
        "the chain has all the bits that are read");
  for (const uint64_t word : words_) {
    nonzero_ += static_cast<size_t>(std::popcount(word));
  }
}

bool Bitmap::IsTooLong() const {
  const size_t used = count_ % kWordBits;
  return used != 0 && words_.back() >> used != 0;
}

void Bitmap::ForEachRun(ChainReader* reader, NumberFormat format,
                        Use use) const {
  const NumberReader packed(reader, format);
  float kept[kRun];
  float run[kRun];
  for (size_t begin = 0; begin < count_; begin += kRun) {
    const size_t length = std::min(kRun, count_ - begin);
    const auto words = absl::MakeConstSpan(words_).subspan(
        begin / kWordBits, (length + kWordBits - 1) / kWordBits);
    size_t nonzero = 0;
    for (const uint64_t word : words) {
      nonzero += static_cast<size_t>(std::popcount(word));
    }
    packed.ReadTo(kept, nonzero);
    std::fill_n(run, length, 0.0f);
    const float* next = kept;
    float* out = run;
    for (uint64_t word : words) {
      for (; word != 0; word &= word - 1) out[std::countr_zero(word)] = *next++;
      out += kWordBits;
    }
    use(run, begin, length);
  }
}

}  // namespace paramd
