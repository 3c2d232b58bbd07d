#ifndef PARAMD_TENSOR_BUFFER_H_
#define PARAMD_TENSOR_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace paramd {

// A reference-counted run of bytes, or a part of one; whoever made it says how
// it is released. Copying adds a reference and copies no byte.
//
// Invariant: the bytes do not change while more than one reference exists. The
// one holder of a unique() buffer made by Allocate or Writable may write to it.
//
// Thread safety: distinct Buffers of the same bytes may be copied and dropped
// on any threads. Memory order: a drop releases, unique() acquires, so whoever
// finds itself alone sees every read of the others as finished.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other) : Buffer(other.store_, other.bytes_) {
    if (store_ != nullptr) {
      store_->references.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Buffer(Buffer&& other) noexcept
      : Buffer(std::exchange(other.store_, nullptr),
               std::exchange(other.bytes_, {})) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(store_, other.store_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() { Drop(); }

  // `size` bytes, 64-byte aligned, not initialised; above 4 MiB of huge pages,
  // as far as the kernel gives them, and given back to it with the last
  // reference.
  static Buffer Allocate(size_t size);
  // A copy of `bytes`.
  static Buffer Copy(absl::Span<const std::byte> bytes);
  static Buffer Copy(const std::string& bytes);
  // Bytes that live elsewhere: `release(context)` runs, on whatever thread
  // drops the last reference; it must be short and take no lock.
  static Buffer Foreign(absl::Span<const std::byte> bytes,
                        void (*release)(void*), void* context);
  // The same of bytes that the one holder of the buffer may write to.
  static Buffer Writable(absl::Span<std::byte> bytes, void (*release)(void*),
                         void* context);

  absl::Span<const std::byte> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // The same bytes [offset, offset + length), one more reference.
  // REQUIRES: the range lies inside.
  Buffer Part(size_t offset, size_t length) const;

  // True if nobody else holds a reference to these bytes.
  bool unique() const {
    return store_ != nullptr &&
           store_->references.load(std::memory_order_acquire) == 1;
  }
  // REQUIRES: unique(), and made by Allocate, Copy or Writable.
  absl::Span<std::byte> mutable_bytes();

 private:
  struct Store {
    std::atomic<int64_t> references;
    void (*release)(void*);
    void* context;
    bool writable;
  };

  Buffer(Store* store, absl::Span<const std::byte> bytes)
      : store_(store), bytes_(bytes) {}
  void Drop();
  static void FreeAllocated(void* context);

  Store* store_ = nullptr;
  absl::Span<const std::byte> bytes_;
};

// Bytes in several pieces, unaligned and split anywhere, an element included.
using BufferChain = absl::InlinedVector<Buffer, 4>;

size_t ChainSize(const BufferChain& chain);

// Reads a chain from front to back. Holds a reference to nothing: the chain
// outlives it. Not thread-safe.
class ChainReader {
 public:
  explicit ChainReader(const BufferChain& chain) : chain_(&chain) {}

  size_t remaining() const;
  // The next contiguous bytes, at most `limit`, which are thereby read. Empty
  // at the end of the chain or for limit 0.
  absl::Span<const std::byte> Next(size_t limit);
  // Copies the next out.size() bytes. False, with the reader at the end, if
  // fewer remain.
  bool Read(absl::Span<std::byte> out);
  // The next `length` bytes as references. REQUIRES: remaining() >= length.
  BufferChain Take(size_t length);

 private:
  const BufferChain* chain_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

// All bytes of the chain in one string: for tests and small heads, never for a
// payload.
std::string FlattenForTest(const BufferChain& chain);

// Bytes of an array of trivially copyable elements.
template <typename T>
absl::Span<const std::byte> AsBytes(absl::Span<const T> elements) {
  return {reinterpret_cast<const std::byte*>(elements.data()),
          elements.size() * sizeof(T)};
}
template <typename T>
absl::Span<std::byte> AsWritableBytes(absl::Span<T> elements) {
  return {reinterpret_cast<std::byte*>(elements.data()),
          elements.size() * sizeof(T)};
}

}  // namespace paramd

#endif  // PARAMD_TENSOR_BUFFER_H_
