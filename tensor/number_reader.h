#ifndef PARAMD_TENSOR_NUMBER_READER_H_
#define PARAMD_TENSOR_NUMBER_READER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/types/span.h"

#include "base/check.h"
#include "tensor/buffer.h"
#include "tensor/number_format.h"

namespace paramd {

// Numbers as they were received: in this format, in pieces that begin anywhere
// and share elements. Holds nothing: the chain's reader outlives it. Not
// thread-safe.
class NumberReader {
 public:
  // A ChainReader* alone reads float32.
  NumberReader(ChainReader* reader, NumberFormat format = NumberFormat::kFp32)
      : reader_(reader), format_(format) {}

  NumberFormat format() const { return format_; }

  // Calls use(bytes, offset, count) for runs of whole float32 elements at any
  // address, which together are the next `elements`; reads these. Another
  // format is decoded on the way, in runs that stay in the first cache.
  // REQUIRES: that many remain.
  template <typename Use>
  void ForEachRun(size_t elements, const Use& use) const {
    if (format_ == NumberFormat::kFp32) return ForEachPiece(elements, use);
    ForEachPiece(elements, [&](const std::byte* bytes, size_t offset,
                               size_t count) {
      float run[kRun];
      for (size_t begin = 0; begin < count; begin += kRun) {
        const size_t length = std::min(kRun, count - begin);
        DecodeNumbers(format_, bytes + begin * BytesOf(format_), length, run);
        use(reinterpret_cast<const std::byte*>(run), offset + begin, length);
      }
    });
  }

  // The same, and they remain to be read.
  template <typename Use>
  void ForEachRunAhead(size_t elements, const Use& use) const {
    ChainReader ahead = *reader_;
    NumberReader(&ahead, format_).ForEachRun(elements, use);
  }

  // Writes the next `elements` to `out`. REQUIRES: that many remain.
  void ReadTo(float* out, size_t elements) const {
    ForEachPiece(elements,
                 [&](const std::byte* bytes, size_t offset, size_t count) {
                   DecodeNumbers(format_, bytes, count, out + offset);
                 });
  }

  // Whether none of the next `elements` is infinite or NaN; reads these, and
  // decodes nothing. REQUIRES: that many remain, in a format of two bytes.
  bool ReadFinite(size_t elements) const {
    bool finite = true;
    ForEachPiece(elements, [&](const std::byte* bytes, size_t, size_t count) {
      finite = AreFinite(format_, bytes, count) && finite;
    });
    return finite;
  }

  // Whether the next `elements` are all positive zeros. Reads none of them, and
  // looks no further than the first that is not. REQUIRES: that many remain.
  bool NextAreZeros(size_t elements) const {
    ChainReader ahead = *reader_;
    for (size_t left = elements * BytesOf(format_); left > 0;) {
      const absl::Span<const std::byte> span = ahead.Next(left);
      CHECK(!span.empty(), "the chain has all the bytes that are asked about");
      const bool zeros =
          span[0] == std::byte{0} &&
          std::memcmp(span.data(), span.data() + 1, span.size() - 1) == 0;
      if (!zeros) return false;
      left -= span.size();
    }
    return true;
  }

  // Passes over the next `elements`. REQUIRES: that many remain.
  void Skip(size_t elements) const {
    for (size_t left = elements * BytesOf(format_); left > 0;) {
      const size_t passed = reader_->Next(left).size();
      CHECK(passed > 0, "the chain has all the bytes that are passed over");
      left -= passed;
    }
  }

  // The next `elements` as float32: references, or a new buffer. REQUIRES: that
  // many remain.
  BufferChain Take(size_t elements) const {
    if (format_ == NumberFormat::kFp32) {
      return reader_->Take(elements * sizeof(float));
    }
    if (elements == 0) return {};
    Buffer decoded = Buffer::Allocate(elements * sizeof(float));
    ReadTo(reinterpret_cast<float*>(decoded.mutable_bytes().data()), elements);
    return {std::move(decoded)};
  }

 private:
  static constexpr size_t kRun = 1024;

  // The same for elements as they were received. One that two pieces share
  // comes as a run of its own.
  template <typename Use>
  void ForEachPiece(size_t elements, const Use& use) const {
    const size_t width = BytesOf(format_);
    size_t offset = 0;
    while (offset < elements) {
      const absl::Span<const std::byte> span =
          reader_->Next((elements - offset) * width);
      CHECK(!span.empty(), "the chain has all the bytes that are read");
      const size_t whole = span.size() / width;
      if (whole > 0) use(span.data(), offset, whole);
      offset += whole;

      const size_t carried = span.size() % width;
      if (carried == 0) continue;
      std::array<std::byte, sizeof(float)> element;
      std::memcpy(element.data(), span.data() + whole * width, carried);
      CHECK(reader_->Read(
                absl::MakeSpan(element).subspan(carried, width - carried)),
            "the chain ends with a whole element");
      use(element.data(), offset, size_t{1});
      ++offset;
    }
  }

  ChainReader* const reader_;
  const NumberFormat format_;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_NUMBER_READER_H_
