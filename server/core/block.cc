#include "server/core/block.h"

#include <utility>

namespace paramd {
namespace {

const float* Floats(const Buffer& buffer) {
  return reinterpret_cast<const float*>(buffer.bytes().data());
}

float* MutableFloats(Buffer* buffer) {
  return reinterpret_cast<float*>(buffer->mutable_bytes().data());
}

// Where the next content of `present` is written: itself if nobody reads it,
// else `*fresh`, which is then taken from `spare`.
float* Target(Buffer* present, Buffer* fresh, SpareBuffers* spare) {
  if (present->empty()) return nullptr;
  if (present->unique()) return MutableFloats(present);
  *fresh = spare->Take(present->size());
  return MutableFloats(fresh);
}

void Replace(Buffer* present, Buffer fresh, SpareBuffers* spare) {
  if (fresh.empty()) return;
  spare->Give(std::exchange(*present, std::move(fresh)));
}

}  // namespace

Block::Block(size_t elements, size_t slot_count, uint64_t life)
    : elements_(elements),
      life_(life),
      values_(Buffer::Allocate(elements * sizeof(float))),
      slots_(slot_count == 0
                 ? Buffer()
                 : Buffer::Allocate(elements * slot_count * sizeof(float))) {}

v1::BlockVersion Block::version() const {
  v1::BlockVersion version;
  version.set_life(life_);
  version.set_counter(applied_);
  return version;
}

void Block::Apply(const Optimizer& optimizer, const NumberReader& gradient,
                  SpareBuffers* spare, const GradientAge& age) {
  Buffer fresh_values;
  Buffer fresh_slots;
  float* const new_values = Target(&values_, &fresh_values, spare);
  float* const new_slots = Target(&slots_, &fresh_slots, spare);
  optimizer.Apply(gradient, applied_,
                  {.elements = elements_,
                   .values = Floats(values_),
                   .slots = Floats(slots_),
                   .new_values = new_values,
                   .new_slots = new_slots},
                  age);
  Replace(&values_, std::move(fresh_values), spare);
  Replace(&slots_, std::move(fresh_slots), spare);
  ++applied_;
}

absl::Span<float> Block::mutable_values() {
  return {MutableFloats(&values_), elements_};
}

absl::Span<float> Block::mutable_slot(size_t slot) {
  return {MutableFloats(&slots_) + slot * elements_, elements_};
}

}  // namespace paramd
