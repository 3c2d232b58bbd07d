#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/read_target.h"
#include "checkpoint/slice_reader.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

}  // namespace

uint64_t CheckpointReader::Numbers::bytes() const {
  return BytesBeside(entry->shape.rows * entry->shape.row_elements, slot,
                     *entry);
}

std::vector<uint64_t> CheckpointReader::Numbers::shape() const {
  const auto& shape = entry->variable->shape();
  if (SlotNamed(slot).by_row) return {shape[0]};
  return {shape.begin(), shape.end()};
}

bool CheckpointReader::Numbers::are_integers() const {
  return SlotNamed(slot).dtype == v1::INT64;
}

std::string CheckpointReader::Numbers::name() const {
  return slot.empty() ? entry->variable->name()
                      : absl::StrCat(entry->variable->name(), "/slot:", slot);
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const std::string& directory) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, ReadManifest(directory));
  RETURN_IF_ERROR(CheckCheckpointName(directory, manifest));
  std::unique_ptr<CheckpointReader> reader(
      new CheckpointReader(directory, std::move(manifest)));
  // Points into the manifest, which has its final place now.
  ASSIGN_OR_RETURN(reader->index_, SliceIndex::Create(reader->manifest_));
  for (const v1::ShardFile& file : reader->manifest_.files()) {
    reader->files_.Count(file);
  }
  return reader;
}

absl::Status CheckpointReader::Read(const Numbers& numbers, uint64_t offset,
                                    uint64_t length, BufferChain* out) {
  const SliceIndex::Entry& entry = *numbers.entry;
  const uint64_t row_bytes =
      BytesBeside(entry.shape.row_elements, numbers.slot, entry);
  const uint64_t end = offset + length;
  ChainTarget target(&buffers_, out);
  auto saved = std::partition_point(
      entry.saved.begin(), entry.saved.end(), [&](const auto& candidate) {
        return candidate.slice->row_end() * row_bytes <= offset;
      });
  for (; saved != entry.saved.end(); ++saved) {
    const uint64_t first = saved->slice->row_begin() * row_bytes;
    const uint64_t last = saved->slice->row_end() * row_bytes;
    if (first >= end) break;
    RETURN_IF_ERROR(ReadSaved({&entry, &*saved, numbers.slot},
                              std::max(offset, first) - first,
                              std::min(end, last) - first, &files_, &target));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ForEachPiece(
    const Numbers& numbers,
    const std::function<absl::Status(const Buffer& piece)>& take) {
  const uint64_t bytes = numbers.bytes();
  for (uint64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    BufferChain chain;
    RETURN_IF_ERROR(
        Read(numbers, offset, std::min(kPieceBytes, bytes - offset), &chain));
    for (const Buffer& piece : chain) RETURN_IF_ERROR(take(piece));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Finish(
    const std::function<void(uint64_t bytes, uint64_t total)>& progress) {
  return files_.Check(progress);
}

}  // namespace paramd
