#include "compute/pipeline/stage_mail.h"

#include <utility>

#include "base/check.h"

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

StageMail::Key StageMail::KeyOf(const PipelineOp& op) {
  switch (op.kind) {
    case PipelineOp::Kind::kSendActivation:
      return {false, op.stage, op.peer, op.micro_batch};
    case PipelineOp::Kind::kReceiveActivation:
      return {false, op.peer, op.stage, op.micro_batch};
    case PipelineOp::Kind::kSendGradient:
      return {true, op.stage, op.peer, op.micro_batch};
    default:
      return {true, op.peer, op.stage, op.micro_batch};
  }
}

void StageMail::Begin() {
  const MutexLock lock(&mutex_);
  under_way_.clear();
}

void StageMail::Put(const Key& key, Buffer content) {
  const MutexLock lock(&mutex_);
  under_way_.emplace(key, std::move(content));
}

bool StageMail::Has(const Key& key) const {
  const MutexLock lock(&mutex_);
  return under_way_.count(key) > 0;
}

Buffer StageMail::Take(const Key& key) {
  const MutexLock lock(&mutex_);
  const auto found = under_way_.find(key);
  CHECK(found != under_way_.end(), "what is taken has come");
  Buffer content = std::move(found->second);
  under_way_.erase(found);
  return content;
}

}  // namespace paramd
