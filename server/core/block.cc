#include "server/core/block.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

const float* Floats(const Buffer& buffer) {
  return reinterpret_cast<const float*>(buffer.bytes().data());
}

float* MutableFloats(Buffer* buffer) {
  return reinterpret_cast<float*>(buffer->mutable_bytes().data());
}

// Of a call's keys in one block: mostly so few that they need no allocation.
using FewRows = absl::InlinedVector<uint32_t, 32>;

// All in memory.
const BlockPlacement& InMemory() {
  static const BlockPlacement placement;
  return placement;
}

// Where the next content of `present` is written: itself if nobody reads it,
// else `*fresh`, which is then taken from `spare`.
float* Target(Buffer* present, const DiskRanges& on_disk, Buffer* fresh,
              SpareBuffers* spare) {
  if (present->empty()) return nullptr;
  if (present->unique()) return MutableFloats(present);
  *fresh = spare->Take(present->size(), on_disk);
  return MutableFloats(fresh);
}

void Replace(Buffer* present, const DiskRanges& on_disk, Buffer fresh,
             SpareBuffers* spare) {
  if (fresh.empty()) return;
  spare->Give(std::exchange(*present, std::move(fresh)), on_disk);
}

// Rows from `fast` on, of which there are none if that is 0.
bool WritesSlowRows(absl::Span<const uint32_t> rows,
                    absl::Span<const KeyTable::Move> moves, size_t fast) {
  if (fast == 0) return false;
  const auto is_slow = [fast](uint32_t row) {
    return row >= fast && row != kNoRow;
  };
  return absl::c_any_of(rows, is_slow) ||
         absl::c_any_of(moves, [&](const KeyTable::Move& move) {
           return is_slow(move.to);
         });
}

// Makes it a buffer that nobody else reads, with the same bytes.
void MakeOneUnique(Buffer* present, const DiskRanges& on_disk,
                   SpareBuffers* spare) {
  if (present->empty() || present->unique()) return;
  Replace(present, on_disk, spare->Copy(*present, on_disk), spare);
}

}  // namespace

Block::Block(size_t elements, size_t slot_words, uint64_t life,
             SpareBuffers* spare)
    : Block(elements, life,
            MakeMemory(elements, slot_words, &InMemory(), spare), &InMemory()) {
}

Block::Block(size_t elements, uint64_t life, BlockMemory memory,
             const BlockPlacement* placement)
    : elements_(elements),
      life_(life),
      values_(std::move(memory.values)),
      slots_(std::move(memory.slots)),
      placement_(placement) {}

BlockMemory Block::MakeMemory(size_t elements, size_t slot_words,
                              const BlockPlacement* placement,
                              SpareBuffers* spare) {
  BlockMemory memory;
  memory.values =
      spare->Take(elements * BytesOf(placement->format), placement->values);
  if (slot_words > 0) {
    memory.slots = spare->Take(slot_words * sizeof(float), placement->slots);
  }
  return memory;
}

uint32_t Block::Checksum(uint32_t sum) const {
  return Crc32c(slots_.bytes(), Crc32c(values_.bytes(), sum));
}

size_t Block::bytes() const {
  return SpareBuffers::BudgetBytes(values_.size(), placement_->values) +
         SpareBuffers::BudgetBytes(slots_.size(), placement_->slots);
}

size_t Block::read_bytes() const {
  const auto read = [](const Buffer& buffer, const DiskRanges& on_disk) {
    return buffer.unique() ? 0
                           : SpareBuffers::BudgetBytes(buffer.size(), on_disk);
  };
  return read(values_, placement_->values) + read(slots_, placement_->slots);
}

void Block::MakeUnique(SpareBuffers* spare) {
  MakeOneUnique(&values_, placement_->values, spare);
  MakeOneUnique(&slots_, placement_->slots, spare);
}

void Block::SeparateDisk(SpareBuffers* spare) {
  spare->Separate(placement_->values, &values_);
  spare->Separate(placement_->slots, &slots_);
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

bool Block::Rests(const Optimizer& optimizer, const VariableOptions& variable) {
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
  if (!optimizer.BeginsOnDevice(gradient) && gradient.NextAreZeros(elements_) &&
      Rests(optimizer, options.variable)) {
    gradient.Skip(elements_);
    ++applied_;
    return;
  }
  Buffer fresh_values;
  Buffer fresh_slots;
  float* const new_values =
      Target(&values_, placement_->values, &fresh_values, spare);
  float* const new_slots =
      Target(&slots_, placement_->slots, &fresh_slots, spare);
  optimizer.Apply(gradient, applied_,
                  {.elements = elements_,
                   .values = Floats(values_),
                   .slots = Floats(slots_),
                   .new_values = new_values,
                   .new_slots = new_slots},
                  options);
  Replace(&values_, placement_->values, std::move(fresh_values), spare);
  Replace(&slots_, placement_->slots, std::move(fresh_slots), spare);
  changed_ = ++applied_;
  slots_are_zeros_ = slots_.empty();
}

void Block::ApplyRows(const Optimizer& optimizer, const RowIds& ids,
                      const NumberReader& gradient, SpareBuffers* spare,
                      const ApplyOptions& options, TableCounts* counts) {
  if (ids.all) return Apply(optimizer, gradient, spare, options);
  if (ids.numbers.empty() && ids.mixed.empty()) {
    ++applied_;
    return;
  }
  MakeUnique(spare);
  if (ids.rules != nullptr) {
    return ApplyKeys(optimizer, ids, gradient, spare, options, counts);
  }
  float* const values = MutableFloats(&values_);
  float* const slots = slots_.empty() ? nullptr : MutableFloats(&slots_);
  optimizer.ApplyRows(gradient, applied_, {ids.numbers, ids.width},
                      {.elements = elements_,
                       .values = values,
                       .slots = slots,
                       .new_values = values,
                       .new_slots = slots},
                      options);
  changed_ = ++applied_;
  slots_are_zeros_ = slots_.empty();
}

void Block::CopyRows(const RowIds& ids, float* out, TableCounts* counts) {
  if (ids.rules != nullptr) return CopyKeys(ids, out, counts);
  CopyNumbered({ids.numbers, ids.width}, out);
}

void Block::CopyNumbered(const Rows& rows, float* out) const {
  const std::byte* const values = values_.bytes().data();
  const size_t width = rows.width;
  const size_t row_bytes = width * value_bytes();
  const bool narrow = is_narrow();
  // A row is seldom in a cache: those after it are fetched meanwhile.
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < rows.numbers.size(); ++i) {
    if (i + kAhead < rows.numbers.size()) {
      __builtin_prefetch(values + rows.numbers[i + kAhead] * row_bytes);
    }
    if (rows.numbers[i] == kNoRow) continue;
    const std::byte* const row = values + rows.numbers[i] * row_bytes;
    if (narrow) {
      DecodeNumbers(placement_->format, row, width, out + i * width);
    } else {
      std::memcpy(out + i * width, row, row_bytes);
    }
  }
}

KeyTable::Columns Block::Columns(size_t width) const {
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

void Block::ApplyKeys(const Optimizer& optimizer, const RowIds& keys,
                      const NumberReader& gradient, SpareBuffers* spare,
                      const ApplyOptions& options, TableCounts* counts) {
  const size_t width = keys.width;
  FewRows rows(keys.mixed.size());
  std::vector<size_t> fresh;
  std::vector<KeyTable::Move> moves;
  table_.FindOrCreate(keys.mixed, /*now=*/applied_ + 1, keys.rules->policy,
                      Columns(width), absl::MakeSpan(rows), &fresh, &moves,
                      counts);
  if (WritesSlowRows(rows, moves, placement_->fast_rows)) SeparateDisk(spare);
  std::byte* const values = values_.mutable_bytes().data();
  const size_t row_bytes = width * value_bytes();
  for (const auto& [from, to] : moves) {
    std::copy_n(values + from * row_bytes, row_bytes, values + to * row_bytes);
  }
  const KeyedRows keyed = {rows, fresh, moves};
  if (!is_narrow()) {
    ApplyKeyedRows(optimizer, keys, keyed, gradient, MutableFloats(&values_),
                   options);
  } else {
    // The rows as float32, each at its place among as many as the block has.
    Buffer wide = spare->Take(elements_ * sizeof(float));
    float* const floats = MutableFloats(&wide);
    for (const uint32_t row : rows) {
      if (row == kNoRow) continue;
      DecodeNumbers(placement_->format, values + row * row_bytes, width,
                    floats + row * width);
    }
    ApplyKeyedRows(optimizer, keys, keyed, gradient, floats, options);
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t row = rows[i];
      if (row == kNoRow) continue;
      // Not of the row: where a key lies depends on memory_rows and capacity.
      EncodeBf16ByChance(floats + row * width, width,
                         CounterRandom(keys.mixed[i]), applied_ * width,
                         values + row * row_bytes);
    }
    spare->Give(std::move(wide));
  }
  changed_ = ++applied_;
  slots_are_zeros_ = false;
}

void Block::ApplyKeyedRows(const Optimizer& optimizer, const RowIds& keys,
                           const KeyedRows& keyed, const NumberReader& gradient,
                           float* values, const ApplyOptions& options) {
  const size_t width = keys.width;
  float* const slots = MutableFloats(&slots_);
  const Optimizer::Arrays arrays = {.elements = elements_,
                                    .values = values,
                                    .slots = slots,
                                    .new_values = values,
                                    .new_slots = slots};
  for (const auto& [from, to] : keyed.moves) {
    optimizer.CopyRow(from, to, width, arrays, options.variable);
  }
  for (const size_t i : keyed.fresh) {
    const uint32_t row = keyed.rows[i];
    keys.rules->initial.FillRow(UnmixKey(keys.mixed[i]),
                                {values + row * width, width});
    optimizer.BeginRow(row, width, arrays, options.variable);
  }
  optimizer.ApplyRows(gradient, applied_, {keyed.rows, width}, arrays, options);
}

void Block::BeginTrained(const Optimizer& optimizer,
                         const VariableOptions& variable, size_t width) {
  if (!variable.trained || slots_.empty()) return;
  Buffer wide;
  if (is_narrow()) wide = Decoded(values_, placement_->format);
  Buffer* const values = is_narrow() ? &wide : &values_;
  float* const slots = MutableFloats(&slots_);
  const Optimizer::Arrays arrays = {.elements = elements_,
                                    .values = Floats(*values),
                                    .slots = slots,
                                    .new_values = MutableFloats(values),
                                    .new_slots = slots};
  if (!variable.keyed) {
    return optimizer.Hold(0, elements_, arrays, variable);
  }
  const absl::Span<const uint64_t> used = Columns(width).used;
  for (uint32_t row = 0; row < used.size(); ++row) {
    if (used[row] == 0) continue;
    optimizer.BeginRow(row, width, arrays, variable);
    optimizer.Hold(row, width, arrays, variable);
  }
}

void Block::CopyKeys(const RowIds& keys, float* out, TableCounts* counts) {
  FewRows rows(keys.mixed.size());
  const size_t width = keys.width;
  table_.Find(keys.mixed, Columns(width), absl::MakeSpan(rows));
  CopyNumbered({rows, width}, out);
  counts->looked_up += rows.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kNoRow) {
      keys.rules->initial.FillRow(UnmixKey(keys.mixed[i]),
                                  {out + i * width, width});
    } else if (placement_->fast_rows > 0 && rows[i] >= placement_->fast_rows) {
      ++counts->on_disk;
    }
  }
}

void Block::Fetch(FetchStep step, const RowIds& ids, const Optimizer* pushes,
                  const VariableOptions& variable) const {
  const auto& [all, numbers, mixed, width, rules] = ids;
  FewRows found;
  if (rules != nullptr) {
    if (step == FetchStep::kPlaces) return table_.FetchPlaces(mixed);
    const KeyTable::Columns columns = Columns(width);
    if (step == FetchStep::kKeys) return table_.FetchKeys(mixed, columns);
    for (const uint64_t key : mixed) {
      found.push_back(table_.Peek(key, columns));
      if (pushes == nullptr || found.back() == kNoRow) continue;
      __builtin_prefetch(&columns.used[found.back()], /*rw=*/1);
    }
  }
  if (step != FetchStep::kRows) return;
  const Rows rows = {rules == nullptr ? numbers : found, width};
  if (pushes != nullptr) {
    const float* const slots = slots_.empty() ? nullptr : Floats(slots_);
    pushes->FetchRows(rows,
                      {.elements = elements_,
                       .values = is_narrow() ? nullptr : Floats(values_),
                       .slots = slots,
                       .new_values = nullptr,
                       .new_slots = nullptr},
                      variable);
    if (!is_narrow()) return;
  }
  const std::byte* const values = values_.bytes().data();
  for (const uint32_t row : rows.numbers) {
    if (row != kNoRow) __builtin_prefetch(values + row * width * value_bytes());
  }
}

void Block::AddSlowRows(const RowIds& keys,
                        std::vector<absl::Span<const std::byte>>* pieces) {
  std::vector<uint32_t> rows(keys.mixed.size());
  table_.Find(keys.mixed, Columns(keys.width), absl::MakeSpan(rows));
  const size_t bytes = keys.width * sizeof(float);
  const size_t value_row = keys.width * value_bytes();
  for (const uint32_t row : rows) {
    if (row == kNoRow || row < placement_->fast_rows) continue;
    pieces->push_back(values_.bytes().subspan(row * value_row, value_row));
    for (const size_t begin : placement_->slot_begins) {
      pieces->push_back(slots_.bytes().subspan(begin + row * bytes, bytes));
    }
  }
}

void Block::SetValues(absl::Span<const float> values) {
  CHECK(values.size() == elements_, "there is a value for each element");
  EncodeNumbers(placement_->format, values.data(), values.size(),
                values_.mutable_bytes().data());
}

absl::Span<float> Block::mutable_values() {
  CHECK(!is_narrow(), "values of 16 bits are no floats");
  return {MutableFloats(&values_), elements_};
}

absl::Span<float> Block::mutable_slots() {
  slots_are_zeros_.reset();
  if (slots_.empty()) return {};
  return {MutableFloats(&slots_), slots_.size() / sizeof(float)};
}

}  // namespace paramd
