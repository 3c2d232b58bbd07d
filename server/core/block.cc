#include "server/core/block.h"

#include <cstring>
#include <utility>
#include <vector>

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

// Makes it a buffer that nobody else reads, with the same bytes.
void MakeUnique(Buffer* present, SpareBuffers* spare) {
  if (present->empty() || present->unique()) return;
  Buffer fresh = spare->Take(present->size());
  std::memcpy(fresh.mutable_bytes().data(), present->bytes().data(),
              present->size());
  Replace(present, std::move(fresh), spare);
}

}  // namespace

Block::Block(size_t elements, size_t slot_words, uint64_t life,
             SpareBuffers* spare)
    : Block(elements, life, MakeMemory(elements, slot_words, spare)) {}

Block::Block(size_t elements, uint64_t life, BlockMemory memory)
    : elements_(elements),
      life_(life),
      values_(std::move(memory.values)),
      slots_(std::move(memory.slots)) {}

BlockMemory Block::MakeMemory(size_t elements, size_t slot_words,
                              SpareBuffers* spare) {
  BlockMemory memory;
  memory.values = spare->Take(elements * sizeof(float));
  if (slot_words > 0) memory.slots = spare->Take(slot_words * sizeof(float));
  return memory;
}

v1::BlockVersion Block::version() const {
  v1::BlockVersion version;
  version.set_life(life_);
  version.set_counter(applied_);
  return version;
}

v1::BlockVersion Block::changed() const {
  v1::BlockVersion version;
  version.set_life(life_);
  version.set_counter(changed_);
  return version;
}

bool Block::Rests(const Optimizer& optimizer,
                  const VariableOptions& variable) {
  if (!slots_are_zeros_.has_value()) {
    const BufferChain slots = {slots_};
    ChainReader reader(slots);
    slots_are_zeros_ =
        NumberReader(&reader).NextAreZeros(slots_.size() / sizeof(float));
  }
  return optimizer.RestsOnZeros(*slots_are_zeros_, variable);
}

void Block::Apply(const Optimizer& optimizer, const NumberReader& gradient,
                  SpareBuffers* spare, const ApplyOptions& options) {
  if (gradient.NextAreZeros(elements_) && Rests(optimizer, options.variable)) {
    gradient.Skip(elements_);
    ++applied_;
    return;
  }
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
                  options);
  Replace(&values_, std::move(fresh_values), spare);
  Replace(&slots_, std::move(fresh_slots), spare);
  changed_ = ++applied_;
  slots_are_zeros_ = slots_.empty();
}

void Block::ApplyRows(const Optimizer& optimizer, const Rows& rows,
                      const NumberReader& gradient, SpareBuffers* spare,
                      const ApplyOptions& options) {
  if (rows.numbers.empty()) {
    ++applied_;
    return;
  }
  MakeUnique(&values_, spare);
  MakeUnique(&slots_, spare);
  float* const values = MutableFloats(&values_);
  float* const slots = slots_.empty() ? nullptr : MutableFloats(&slots_);
  optimizer.ApplyRows(gradient, applied_, rows,
                      {.elements = elements_,
                       .values = values,
                       .slots = slots,
                       .new_values = values,
                       .new_slots = slots},
                      options);
  changed_ = ++applied_;
  slots_are_zeros_ = slots_.empty();
}

void Block::CopyRows(const Rows& rows, float* out) const {
  const float* const values = Floats(values_);
  const size_t width = rows.width;
  // A row is seldom in a cache: those behind it are fetched meanwhile.
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < rows.numbers.size(); ++i) {
    if (i + kAhead < rows.numbers.size()) {
      __builtin_prefetch(values + rows.numbers[i + kAhead] * width);
    }
    if (rows.numbers[i] == kNoRow) continue;
    std::memcpy(out + i * width, values + rows.numbers[i] * width,
                width * sizeof(float));
  }
}

KeyTable::Columns Block::Columns(size_t width) {
  // A copy of the block that is only read may lie in others' memory.
  auto* const first = reinterpret_cast<uint64_t*>(
      const_cast<std::byte*>(slots_.bytes().data()));
  const size_t rows = elements_ / width;
  // Counters come third, if keys are admitted late; else what lies there is not
  // looked at.
  const size_t words = slots_.size() / sizeof(uint64_t);
  return {{first, rows},
          {first + rows, rows},
          absl::MakeSpan(first, words).subspan(2 * rows, rows)};
}

void Block::ApplyKeys(const Optimizer& optimizer, const Keys& keys,
                      const KeyPolicy& policy, const NumberReader& gradient,
                      SpareBuffers* spare, const ApplyOptions& options,
                      TableCounts* counts) {
  if (keys.mixed.empty()) {
    ++applied_;
    return;
  }
  MakeUnique(&values_, spare);
  MakeUnique(&slots_, spare);
  float* const values = MutableFloats(&values_);
  float* const slots = MutableFloats(&slots_);
  const Optimizer::Arrays arrays = {.elements = elements_,
                                    .values = values,
                                    .slots = slots,
                                    .new_values = values,
                                    .new_slots = slots};
  const size_t width = keys.width;
  std::vector<uint32_t> rows(keys.mixed.size());
  std::vector<size_t> fresh;
  table_.FindOrCreate(keys.mixed, /*now=*/applied_ + 1, policy, Columns(width),
                      absl::MakeSpan(rows), &fresh, counts);
  for (const size_t i : fresh) {
    keys.initial->FillRow(UnmixKey(keys.mixed[i]),
                          {values + rows[i] * width, width});
    optimizer.BeginRow(rows[i], width, arrays, options.variable);
  }
  optimizer.ApplyRows(gradient, applied_, {rows, width}, arrays, options);
  changed_ = ++applied_;
  slots_are_zeros_ = false;
}

void Block::CopyKeys(const Keys& keys, float* out) {
  std::vector<uint32_t> rows(keys.mixed.size());
  const size_t width = keys.width;
  table_.Find(keys.mixed, Columns(width), absl::MakeSpan(rows));
  CopyRows({rows, width}, out);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != kNoRow) continue;
    keys.initial->FillRow(UnmixKey(keys.mixed[i]), {out + i * width, width});
  }
}

absl::Span<float> Block::mutable_values() {
  return {MutableFloats(&values_), elements_};
}

absl::Span<float> Block::mutable_slots() {
  slots_are_zeros_.reset();
  if (slots_.empty()) return {};
  return {MutableFloats(&slots_), slots_.size() / sizeof(float)};
}

}  // namespace paramd
