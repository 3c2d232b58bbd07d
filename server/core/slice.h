#ifndef PARAMD_SERVER_CORE_SLICE_H_
#define PARAMD_SERVER_CORE_SLICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "config/optimizer_slots.h"
#include "proto/paramd/v1/types.pb.h"
#include "server/core/applied_pushes.h"
#include "server/core/block.h"
#include "tensor/number_format.h"
#include "tensor/shape.h"

namespace paramd {

// Contiguous rows of a variable that this server owns: their blocks, and the
// record of the pushes that these contain.
//
// Invariant: its elements lie in its blocks, in order, as its BlockCut says.
//
// Not thread-safe: lives inside a ShardContent.
class Slice {
 public:
  // Has no blocks yet; their memory will come from `spare`, which outlives it.
  // REQUIRES: `rows` lie inside the variable, which CheckVariable let pass and
  // whose rows have `row_elements` each.
  Slice(const v1::Variable& variable, uint64_t row_elements, RowRange rows,
        SpareBuffers* spare);

  const v1::Variable& variable() const { return variable_; }
  // How the optimizer treats it.
  const VariableOptions& options() const { return options_; }
  // What lies beside its values.
  absl::Span<const Slot> slots() const { return slots_; }
  // Both, before there are blocks; keys begin with values of the `seed`.
  void SetTraining(const VariableOptions& options, absl::Span<const Slot> slots,
                   uint64_t seed);
  // Null, if its rows have no keys.
  const KeyRules* key_rules() const {
    return key_rules_.has_value() ? &*key_rules_ : nullptr;
  }
  // What of each block need not lie in memory: rows that are not fast.
  const BlockPlacement& placement() const { return placement_; }
  RowRange rows() const { return rows_; }
  uint64_t row_elements() const { return row_elements_; }
  // Rows are pulled and pushed by themselves; a block has whole ones.
  bool sparse() const { return variable_.sparse(); }
  // How its values lie in blocks and in checkpoints.
  NumberFormat value_format() const {
    return keyed() && variable_.row_format() == v1::Variable::ROW_FORMAT_BF16
               ? NumberFormat::kBf16
               : NumberFormat::kFp32;
  }
  // By their keys, 8 bytes each; else by their numbers, 4 bytes each.
  bool keyed() const { return variable_.keyed(); }
  size_t row_id_bytes() const {
    return keyed() ? sizeof(uint64_t) : sizeof(uint32_t);
  }
  // The first dimension is saved as it is for a whole variable only.
  bool whole() const { return whole_; }

  // Of a tensor of these rows: "w" or "w[512:1024]", with a slot
  // "w/slot:momentum" or "w/slot:momentum[512:1024]".
  std::string TensorName(absl::string_view slot = "") const;
  // Of values; a slot that is by_row has the first dimension alone.
  std::vector<uint64_t> TensorShape() const;

  // Where the slice begins, as an element of the whole variable.
  uint64_t first_element() const { return rows_.begin * row_elements_; }
  uint64_t elements() const {
    return (rows_.end - rows_.begin) * row_elements_;
  }
  const BlockCut& cut() const { return cut_; }
  int block_count() const { return block_count_; }
  size_t block_elements(int block) const;
  // Where a block begins, as an element of the whole variable.
  uint64_t block_begin(int block) const;
  // Slots beside `elements` of them, in 4 bytes.
  size_t SlotWords(uint64_t elements) const;
  // Values and slots of `elements` of them, as they lie in blocks.
  uint64_t BytesOf(uint64_t elements) const {
    return elements * paramd::BytesOf(value_format()) +
           SlotWords(elements) * sizeof(float);
  }
  // What is read of a checkpoint to fill it: values as float32, and slots.
  uint64_t read_bytes() const {
    return (elements() + SlotWords(elements())) * sizeof(float);
  }
  // What is read where it begins with trained values: these as float32, and of
  // a keyed variable its first two slots, key and use.
  uint64_t initial_bytes() const;

  // Where one of its slots lies among those of a block, in 4 bytes.
  struct SlotPlace {
    size_t begin;
    size_t words;
  };
  SlotPlace PlaceOfSlot(int block, size_t slot) const;
  // Files and copies have one part after the other, each of all blocks: the
  // values, and then each slot.
  size_t part_count() const { return 1 + slots_.size(); }
  // To fill a fresh block.
  absl::Span<std::byte> MutablePart(int block, size_t part);

  // Fresh blocks of undefined content, for the caller to fill.
  void CreateBlocks(uint64_t life);
  // Fresh blocks of what lies in `memory`, one each.
  void CreateBlocks(uint64_t life, std::vector<BlockMemory> memory);
  // Its blocks were filled with values that were trained elsewhere: their slots
  // begin anew, and hold those values where they say what a value will be. Of a
  // keyed variable, which was filled with keys and uses too, those of the rows
  // with a key.
  void BeginTrained(const Optimizer& optimizer);
  // For a block that is to be.
  BlockMemory MakeMemory(int block) const;
  bool has_blocks() const { return !blocks_.empty(); }
  Block& block(int block) { return blocks_[block]; }
  const Block& block(int block) const { return blocks_[block]; }

  AppliedPushes& applied() { return applied_; }
  const AppliedPushes& applied() const { return applied_; }

  // How often pushes and pulls have named a block of it.
  uint64_t named_blocks() const { return named_blocks_; }
  void CountNamedBlock() { ++named_blocks_; }

  // Of a keyed variable.
  TableCounts& table_counts() { return table_counts_; }

 private:
  v1::Variable variable_;
  VariableOptions options_;
  std::vector<Slot> slots_;
  absl::optional<KeyRules> key_rules_;
  uint64_t row_elements_;
  RowRange rows_;
  bool whole_;
  BlockPlacement placement_;
  SpareBuffers* spare_;
  BlockCut cut_;
  int block_count_;
  std::vector<Block> blocks_;
  AppliedPushes applied_;
  TableCounts table_counts_;
  uint64_t named_blocks_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SLICE_H_
