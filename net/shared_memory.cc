#include "net/shared_memory.h"

#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

using Arena = SharedMapping::Arena;

constexpr uint32_t kFree = 0;
constexpr uint32_t kHeld = 1;

// What a Buffer keeps of the memory it lies in.
struct TakenPiece {
  std::shared_ptr<SharedMapping> mapping;
  std::atomic<uint32_t>* word;
};

void Release(void* context) {
  auto* const piece = static_cast<TakenPiece*>(context);
  piece->word->store(kFree, std::memory_order_release);
  delete piece;
}

absl::Status Bad(const v1::SharedPayload::Piece& piece,
                 absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("shared payload: ", piece.length(), " bytes at ",
                   piece.offset(), " ", what));
}

}  // namespace

SharedMemory::SharedMemory(End end, uint64_t id,
                           std::shared_ptr<SharedMapping> mapping)
    : id_(id),
      written_(end == End::kClient ? Arena::kClient : Arena::kServer),
      read_(end == End::kClient ? Arena::kServer : Arena::kClient),
      mapping_(std::move(mapping)) {}

bool SharedMemory::Put(const BufferChain& payload, v1::SharedPayload* shared) {
  const size_t bytes = ChainSize(payload);
  if (bytes < kLeastBytes) return false;
  const auto first = Reserve((bytes + SharedMapping::kUnitBytes - 1) /
                             SharedMapping::kUnitBytes);
  if (!first.has_value()) {
    ++without_room_;
    return false;
  }
  const size_t offset = *first * SharedMapping::kUnitBytes;
  std::byte* out = mapping_->arena(written_).data() + offset;
  for (const Buffer& buffer : payload) {
    if (buffer.empty()) continue;
    std::memcpy(out, buffer.bytes().data(), buffer.size());
    out += buffer.size();
  }
  mapping_->word(written_, *first).store(kHeld, std::memory_order_release);
  shared->set_memory(id_);
  v1::SharedPayload::Piece* const piece = shared->add_pieces();
  piece->set_offset(offset);
  piece->set_length(bytes);
  put_bytes_ += bytes;
  return true;
}

absl::optional<size_t> SharedMemory::Reserve(size_t units) {
  for (auto it = held_.begin(); it != held_.end();) {
    const auto& word = mapping_->word(written_, it->first);
    const bool free = word.load(std::memory_order_acquire) == kFree;
    it = free ? held_.erase(it) : std::next(it);
  }
  if (next_ > kWalkUnits) next_ = 0;
  auto first = FirstGap(next_, units);
  if (!first.has_value()) first = FirstGap(0, units);
  if (!first.has_value()) return absl::nullopt;
  held_.emplace(*first, units);
  next_ = *first + units;
  return first;
}

absl::optional<size_t> SharedMemory::FirstGap(size_t from, size_t units) const {
  size_t first = from;
  for (const auto& [unit, count] : held_) {
    if (unit + count <= first) continue;
    if (unit >= first + units) break;
    first = unit + count;
  }
  if (first + units > SharedMapping::kUnits) return absl::nullopt;
  return first;
}

absl::StatusOr<BufferChain> SharedMemory::Take(
    const v1::SharedPayload& shared) {
  BufferChain payload;
  if (shared.memory() != id_) {
    return absl::InvalidArgumentError(
        absl::StrFormat("shared payload: it lies in memory %016x; expected "
                        "%016x",
                        shared.memory(), id_));
  }
  size_t bytes = 0;
  for (const v1::SharedPayload::Piece& piece : shared.pieces()) {
    ASSIGN_OR_RETURN(Buffer buffer, TakePiece(piece));
    bytes += buffer.size();
    if (bytes > SharedMapping::kArenaBytes) {
      return Bad(piece, "are more than fits beside the pieces before them");
    }
    payload.push_back(std::move(buffer));
  }
  taken_bytes_ += bytes;
  return payload;
}

absl::StatusOr<Buffer> SharedMemory::TakePiece(
    const v1::SharedPayload::Piece& piece) {
  const absl::Span<const std::byte> arena = mapping_->arena(read_);
  if (piece.offset() >= arena.size() || piece.length() == 0 ||
      piece.length() > arena.size() - piece.offset()) {
    return Bad(piece, absl::StrCat("do not lie in an arena of ", arena.size()));
  }
  if (piece.offset() % SharedMapping::kUnitBytes != 0) {
    return Bad(piece, absl::StrCat("do not begin at a multiple of ",
                                   SharedMapping::kUnitBytes));
  }
  std::atomic<uint32_t>& word =
      mapping_->word(read_, piece.offset() / SharedMapping::kUnitBytes);
  if (word.load(std::memory_order_acquire) != kHeld) {
    return Bad(piece, "hold nothing");
  }
  return Buffer::Foreign(arena.subspan(piece.offset(), piece.length()),
                         &Release, new TakenPiece{mapping_, &word});
}

}  // namespace paramd
