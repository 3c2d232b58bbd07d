#include "tensor/buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"
#include "tensor/huge_pages.h"

namespace paramd {
namespace {

constexpr size_t kAlignment = 64;
// What is not larger is kept by the allocator, which then takes no page fault:
// pieces that files are read in have 4 MiB.
constexpr size_t kMostAllocated = 2 * HugePages::kBytes;

}  // namespace

Buffer Buffer::Allocate(size_t size) {
  if (size > kMostAllocated) {
    if (auto pages = HugePages::Map(size)) {
      std::byte* const begin = pages->begin();
      return Writable(
          {begin, size},
          [](void* context) { delete static_cast<HugePages*>(context); },
          pages.release());
    }
  }
  // The count lies in the cache line before the bytes: one allocation.
  static_assert(sizeof(Store) <= kAlignment);
  void* memory =
      ::operator new (kAlignment + size, std::align_val_t{kAlignment});
  Store* store = new (memory)
      Store{{1}, &Buffer::FreeAllocated, memory, /*writable=*/true};
  return Buffer(store,
                {static_cast<const std::byte*>(memory) + kAlignment, size});
}

void Buffer::FreeAllocated(void* context) {
  ::operator delete (context, std::align_val_t{kAlignment});
}

Buffer Buffer::Copy(absl::Span<const std::byte> bytes) {
  Buffer copy = Allocate(bytes.size());
  if (!bytes.empty()) {
    std::memcpy(copy.mutable_bytes().data(), bytes.data(), bytes.size());
  }
  return copy;
}

Buffer Buffer::Copy(const std::string& bytes) {
  return Copy(absl::Span<const std::byte>(
      reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
}

Buffer Buffer::Foreign(absl::Span<const std::byte> bytes,
                       void (*release)(void*), void* context) {
  return Buffer(new Store{{1}, release, context, /*writable=*/false}, bytes);
}

Buffer Buffer::Writable(absl::Span<std::byte> bytes, void (*release)(void*),
                        void* context) {
  return Buffer(new Store{{1}, release, context, /*writable=*/true}, bytes);
}

Buffer Buffer::Part(size_t offset, size_t length) const {
  CHECK(offset <= size() && length <= size() - offset,
        "a part lies inside its buffer");
  Buffer part(*this);
  part.bytes_ = bytes_.subspan(offset, length);
  return part;
}

absl::Span<std::byte> Buffer::mutable_bytes() {
  CHECK(unique() && store_->writable,
        "only the single holder of an allocated buffer writes to it");
  return {const_cast<std::byte*>(bytes_.data()), bytes_.size()};
}

void Buffer::Drop() {
  if (store_ == nullptr) return;
  if (store_->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const auto release = store_->release;
  void* const context = store_->context;
  if (release == &Buffer::FreeAllocated) {
    store_->~Store();
  } else {
    delete store_;
  }
  release(context);
}

size_t ChainSize(const BufferChain& chain) {
  size_t size = 0;
  for (const Buffer& buffer : chain) size += buffer.size();
  return size;
}

size_t ChainReader::remaining() const {
  size_t left = 0;
  for (size_t i = index_; i < chain_->size(); ++i) left += (*chain_)[i].size();
  return left - offset_;
}

absl::Span<const std::byte> ChainReader::Next(size_t limit) {
  while (index_ < chain_->size() && offset_ == (*chain_)[index_].size()) {
    ++index_;
    offset_ = 0;
  }
  if (index_ == chain_->size()) return {};
  const auto span = (*chain_)[index_].bytes().subspan(offset_, limit);
  offset_ += span.size();
  return span;
}

bool ChainReader::Read(absl::Span<std::byte> out) {
  while (!out.empty()) {
    const absl::Span<const std::byte> span = Next(out.size());
    if (span.empty()) return false;
    std::memcpy(out.data(), span.data(), span.size());
    out.remove_prefix(span.size());
  }
  return true;
}

BufferChain ChainReader::Take(size_t length) {
  BufferChain taken;
  while (length > 0) {
    const absl::Span<const std::byte> span = Next(length);
    CHECK(!span.empty(), "the chain has the bytes that are taken");
    const Buffer& source = (*chain_)[index_];
    taken.push_back(
        source.Part(span.data() - source.bytes().data(), span.size()));
    length -= span.size();
  }
  return taken;
}

std::string FlattenForTest(const BufferChain& chain) {
  std::string all;
  for (const Buffer& buffer : chain) {
    all.append(reinterpret_cast<const char*>(buffer.bytes().data()),
               buffer.size());
  }
  return all;
}

}  // namespace paramd
