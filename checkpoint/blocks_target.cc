#include "checkpoint/blocks_target.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Of the values of a wanted slice, or of one of its slots.
absl::StatusOr<uint64_t> BytesOf(const v1::ReadSlices::Want& want) {
  ASSIGN_OR_RETURN(const RowShape shape,
                   ToRowShape({want.shape().data(),
                               static_cast<size_t>(want.shape().size())}));
  if (want.row_begin() >= want.row_end() || want.row_end() > shape.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows [", want.row_begin(), ", ", want.row_end(), ") of '",
                     want.variable(), "' do not exist; it has ", shape.rows));
  }
  return (want.row_end() - want.row_begin()) * shape.row_elements *
         sizeof(float);
}

absl::Status Misfit(const v1::ReadSlices::Want& want) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the memory for rows [", want.row_begin(), ", ", want.row_end(), ") of '",
      want.variable(), "' is not that of their blocks"));
}

}  // namespace

absl::StatusOr<BlocksTarget> BlocksTarget::Create(const v1::ReadSlices& request,
                                                  BufferChain* memory) {
  BlocksTarget target;
  auto buffer = memory->begin();
  for (const v1::ReadSlices::Want& want : request.slices()) {
    ASSIGN_OR_RETURN(uint64_t left, BytesOf(want));
    const size_t slots =
        want.values_only() ? 0 : static_cast<size_t>(request.slots_size());
    std::vector<absl::Span<std::byte>> blocks_of_slots;
    while (left > 0) {
      if (buffer == memory->end() || !buffer->unique() || buffer->empty() ||
          buffer->size() > left) {
        return Misfit(want);
      }
      const size_t bytes = buffer->size();
      left -= bytes;
      target.places_.push_back((buffer++)->mutable_bytes());
      if (slots == 0) continue;
      if (buffer == memory->end() || !buffer->unique() ||
          buffer->size() != slots * bytes) {
        return Misfit(want);
      }
      blocks_of_slots.push_back((buffer++)->mutable_bytes());
    }
    for (size_t slot = 0; slot < slots; ++slot) {
      for (const absl::Span<std::byte> block : blocks_of_slots) {
        const size_t bytes = block.size() / slots;
        target.places_.push_back(block.subspan(slot * bytes, bytes));
      }
    }
  }
  if (buffer == memory->end()) return target;
  return absl::InvalidArgumentError("there is memory for more than is wanted");
}

absl::Span<std::byte> BlocksTarget::Next(uint64_t most) {
  if (next_ == places_.size()) return {};
  absl::Span<std::byte>& place = places_[next_];
  const absl::Span<std::byte> taken = place.subspan(0, most);
  place.remove_prefix(taken.size());
  if (place.empty()) ++next_;
  return taken;
}

}  // namespace paramd
