#include "worker/pipeline/stage_mail.h"

#include <utility>

namespace paramd {

Buffer BorderMemory::Take(size_t bytes, std::byte** data) {
  for (Piece& piece : pieces_) {
    if (piece.buffer.size() < bytes || !piece.buffer.unique()) continue;
    *data = piece.data;
    return piece.buffer.Part(0, bytes);
  }
  Piece piece;
  piece.buffer = Buffer::Allocate(bytes);
  piece.data = piece.buffer.mutable_bytes().data();
  pieces_.push_back(piece);
  *data = piece.data;
  return piece.buffer.Part(0, bytes);
}

void StageMail::Begin() {
  const MutexLock lock(&mutex_);
  under_way_.clear();
  cancelled_ = false;
}

void StageMail::Put(const Key& key, Buffer content) {
  const MutexLock lock(&mutex_);
  under_way_.emplace(key, std::move(content));
  changed_.NotifyAll();
}

absl::StatusOr<Buffer> StageMail::Take(const Key& key) {
  const MutexLock lock(&mutex_);
  for (;;) {
    if (cancelled_) return absl::CancelledError("another stage has failed");
    const auto found = under_way_.find(key);
    if (found != under_way_.end()) {
      Buffer content = std::move(found->second);
      under_way_.erase(found);
      return content;
    }
    changed_.Wait(&mutex_);
  }
}

void StageMail::Cancel() {
  const MutexLock lock(&mutex_);
  cancelled_ = true;
  changed_.NotifyAll();
}

}  // namespace paramd
