#include "server/core/slice.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {

Slice::Slice(const v1::Variable& variable, uint64_t row_elements, RowRange rows,
             SpareBuffers* spare)
    : variable_(variable),
      row_elements_(row_elements),
      rows_(rows),
      whole_(rows.begin == 0 &&
             rows.end == (variable.shape().empty() ? 1 : variable.shape(0))),
      spare_(spare),
      cut_(BlockCut::Of(variable.sparse(), row_elements)),
      block_count_(static_cast<int>(cut_.Count(elements()))),
      applied_(block_count_) {}

void Slice::SetTraining(const VariableOptions& options,
                        absl::Span<const Slot> slots, uint64_t seed) {
  options_ = options;
  slots_.assign(slots.begin(), slots.end());
  if (keyed()) {
    key_rules_ = KeyRules{KeyPolicyOf(variable_), {variable_, seed}};
  }
  placement_ = {};
  placement_.format = value_format();
  placement_.fast_rows = keyed() ? FastRowsOf(variable_) : 0;
  if (placement_.fast_rows == 0) return;
  const size_t first = placement_.fast_rows * row_elements_;
  const size_t value_bytes = paramd::BytesOf(placement_.format);
  AddPages(first * value_bytes, block_elements(0) * value_bytes,
           &placement_.values);
  const size_t begin = first * sizeof(float);
  const size_t end = block_elements(0) * sizeof(float);
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].by_row) continue;
    const size_t place = PlaceOfSlot(0, s).begin * sizeof(float);
    AddPages(place + begin, place + end, &placement_.slots);
    placement_.slot_begins.push_back(place);
  }
}

std::string Slice::TensorName(absl::string_view slot) const {
  std::string name = variable_.name();
  if (!slot.empty()) absl::StrAppend(&name, "/slot:", slot);
  if (!whole_) absl::StrAppend(&name, "[", rows_.begin, ":", rows_.end, "]");
  return name;
}

std::vector<uint64_t> Slice::TensorShape() const {
  std::vector<uint64_t> shape(variable_.shape().begin(),
                              variable_.shape().end());
  if (!whole_) shape[0] = rows_.end - rows_.begin;
  return shape;
}

size_t Slice::block_elements(int block) const {
  return cut_.ElementsOf(block, elements());
}

uint64_t Slice::block_begin(int block) const {
  return first_element() + cut_.Begin(block);
}

size_t Slice::SlotWords(uint64_t elements) const {
  size_t words = 0;
  for (const Slot& slot : slots_) words += slot.words(elements, row_elements_);
  return words;
}

uint64_t Slice::initial_bytes() const {
  const uint64_t row_bytes =
      row_elements_ * sizeof(float) + (keyed() ? 2 * sizeof(uint64_t) : 0);
  return (rows_.end - rows_.begin) * row_bytes;
}

Slice::SlotPlace Slice::PlaceOfSlot(int block, size_t slot) const {
  const size_t elements = block_elements(block);
  SlotPlace place = {0, slots_[slot].words(elements, row_elements_)};
  for (size_t s = 0; s < slot; ++s) {
    place.begin += slots_[s].words(elements, row_elements_);
  }
  return place;
}

absl::Span<std::byte> Slice::MutablePart(int block, size_t part) {
  if (part == 0) return blocks_[block].mutable_value_bytes();
  const SlotPlace place = PlaceOfSlot(block, part - 1);
  return AsWritableBytes(
      blocks_[block].mutable_slots().subspan(place.begin, place.words));
}

BlockMemory Slice::MakeMemory(int block) const {
  const size_t elements = block_elements(block);
  return Block::MakeMemory(elements, SlotWords(elements), &placement_, spare_);
}

void Slice::BeginTrained(const Optimizer& optimizer) {
  for (Block& block : blocks_) {
    block.BeginTrained(optimizer, options_, row_elements_);
  }
}

void Slice::CreateBlocks(uint64_t life) {
  std::vector<BlockMemory> memory;
  memory.reserve(block_count_);
  for (int b = 0; b < block_count_; ++b) memory.push_back(MakeMemory(b));
  CreateBlocks(life, std::move(memory));
}

void Slice::CreateBlocks(uint64_t life, std::vector<BlockMemory> memory) {
  CHECK(memory.size() == static_cast<size_t>(block_count_),
        "each block has memory");
  blocks_.clear();
  blocks_.reserve(block_count_);
  for (int b = 0; b < block_count_; ++b) {
    blocks_.emplace_back(block_elements(b), life, std::move(memory[b]),
                         &placement_);
  }
}

}  // namespace paramd
