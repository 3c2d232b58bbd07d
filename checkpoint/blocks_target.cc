#include "checkpoint/blocks_target.h"

#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/slice_reader.h"
#include "config/optimizer_slots.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

absl::StatusOr<RowShape> ShapeOf(const v1::ReadSlices::Want& want) {
  ASSIGN_OR_RETURN(const RowShape shape,
                   ToRowShape({want.shape().data(),
                               static_cast<size_t>(want.shape().size())}));
  if (want.row_begin() < want.row_end() && want.row_end() <= shape.rows) {
    return shape;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rows [", want.row_begin(), ", ", want.row_end(), ") of '",
                   want.variable(), "' do not exist; it has ", shape.rows));
}

// Of each of the slots of a block, how many bytes it has.
std::vector<uint64_t> BytesOfSlots(const std::vector<Slot>& slots,
                                   uint64_t elements, uint64_t row_elements) {
  std::vector<uint64_t> bytes;
  for (const Slot& slot : slots) {
    bytes.push_back(slot.words(elements, row_elements) * sizeof(float));
  }
  return bytes;
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
    ASSIGN_OR_RETURN(const RowShape shape, ShapeOf(want));
    uint64_t left = (want.row_end() - want.row_begin()) * shape.row_elements *
                    sizeof(float);
    const std::vector<Slot> slots = SlotsOf(request, want);
    // By slot, its places in all blocks.
    std::vector<std::vector<absl::Span<std::byte>>> places(slots.size());
    while (left > 0) {
      if (buffer == memory->end() || !buffer->unique() || buffer->empty() ||
          buffer->size() > left) {
        return Misfit(want);
      }
      const size_t bytes = buffer->size();
      left -= bytes;
      target.places_.push_back((buffer++)->mutable_bytes());
      if (slots.empty()) continue;
      const std::vector<uint64_t> of_slots =
          BytesOfSlots(slots, bytes / sizeof(float), shape.row_elements);
      if (buffer == memory->end() || !buffer->unique() ||
          buffer->size() !=
              std::accumulate(of_slots.begin(), of_slots.end(), uint64_t{0})) {
        return Misfit(want);
      }
      absl::Span<std::byte> block = (buffer++)->mutable_bytes();
      for (size_t slot = 0; slot < slots.size(); ++slot) {
        places[slot].push_back(block.first(of_slots[slot]));
        block.remove_prefix(of_slots[slot]);
      }
    }
    for (const auto& of_slot : places) {
      target.places_.insert(target.places_.end(), of_slot.begin(),
                            of_slot.end());
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
