#include "tensor/buffer_arena.h"

#include <functional>
#include <utility>

namespace paramd {

std::shared_ptr<BufferArena> BufferArena::Create(absl::Span<std::byte> memory,
                                                 size_t page,
                                                 std::shared_ptr<void> owner) {
  return std::shared_ptr<BufferArena>(
      new BufferArena(memory, page, std::move(owner)));
}

BufferArena::~BufferArena() {
  const MutexLock lock(&mutex_);
  TakeReturned();
}

Buffer BufferArena::Allocate(size_t size) {
  if (size == 0) return Buffer();
  const size_t whole = (size + page_ - 1) / page_ * page_;
  std::unique_ptr<Piece> piece;
  {
    const MutexLock lock(&mutex_);
    TakeReturned();
    std::vector<std::unique_ptr<Piece>>& of_size = free_[whole];
    if (!of_size.empty()) {
      piece = std::move(of_size.back());
      of_size.pop_back();
    } else if (whole <= memory_.size() - used_) {
      piece = std::make_unique<Piece>();
      piece->bytes = memory_.subspan(used_, whole);
      used_ += whole;
    } else {
      return Buffer();
    }
  }
  piece->arena = shared_from_this();
  const absl::Span<std::byte> bytes = piece->bytes.subspan(0, size);
  return Buffer::Writable(bytes, &BufferArena::Release, piece.release());
}

bool BufferArena::Has(absl::Span<const std::byte> bytes) const {
  const std::less_equal<const std::byte*> not_behind;
  return not_behind(memory_.data(), bytes.data()) &&
         not_behind(bytes.data() + bytes.size(),
                    memory_.data() + memory_.size());
}

void BufferArena::Release(void* context) {
  auto* const piece = static_cast<Piece*>(context);
  const std::shared_ptr<BufferArena> arena = std::move(piece->arena);
  piece->next = arena->returned_.load(std::memory_order_relaxed);
  while (!arena->returned_.compare_exchange_weak(piece->next, piece,
                                                 std::memory_order_release,
                                                 std::memory_order_relaxed)) {
  }
}

void BufferArena::TakeReturned() {
  Piece* piece = returned_.exchange(nullptr, std::memory_order_acquire);
  while (piece != nullptr) {
    Piece* const next = piece->next;
    free_[piece->bytes.size()].emplace_back(piece);
    piece = next;
  }
}

}  // namespace paramd
