#ifndef PARAMD_SERVER_CORE_BLOCK_H_
#define PARAMD_SERVER_CORE_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "config/initial_values.h"
#include "proto/paramd/v1/types.pb.h"
#include "server/core/gradient_rms.h"
#include "server/core/key_table.h"
#include "server/core/optimizer.h"
#include "server/core/spare_buffers.h"
#include "tensor/buffer.h"
#include "tensor/disk_memory.h"
#include "tensor/number_format.h"
#include "tensor/number_reader.h"

namespace paramd {

// The buffers of a block: its values, and all its slots one after another. The
// second is empty if there are no slots.
struct BlockMemory {
  Buffer values;
  Buffer slots;
};

// How the values of a slice's blocks are written, and which bytes may lie on a
// disk, as pages: of rows that are not fast the values, and those slots that
// have a number for each value. The same for all blocks of a slice.
struct BlockPlacement {
  NumberFormat format = NumberFormat::kFp32;
  size_t fast_rows = 0;  // 0: all.
  DiskRanges values;
  DiskRanges slots;
  std::vector<size_t> slot_begins;  // Where these slots begin, in bytes.

  uint64_t disk_bytes() const { return BytesOf(values) + BytesOf(slots); }
};

// What the keys of all blocks of a keyed variable have in common.
struct KeyRules {
  KeyPolicy policy;
  // What a key begins with, and reads as while it has no row.
  InitialValues initial;
};

// What a call names of a block: rows by their numbers or, where there are rules
// for keys, by mixed keys, each once; or, of a variable that is not sparse,
// all.
struct RowIds {
  bool all = false;
  absl::Span<const uint32_t> numbers;
  absl::Span<const uint64_t> mixed;
  size_t width = 1;
  const KeyRules* rules = nullptr;
};

// Consecutive elements of a slice with their slots and the count of pushes that
// they contain: the unit of atomicity, versioning and copy-on-write.
//
// Invariant: bytes that somebody else holds a reference to (a reply on its way,
// a snapshot being written) never change. A push is then written into other
// buffers, which replace them.
//
// Not thread-safe: lives inside a Slice and is called from its shard's thread
// only. References that have left it may be dropped on any thread.
class Block {
 public:
  // Content undefined until it is filled through the mutable spans. `life`, not
  // zero, names this content: no other ever has the same. Memory comes from
  // `spare`; all slots take `slot_words` of 4 bytes.
  Block(size_t elements, size_t slot_words, uint64_t life, SpareBuffers* spare);
  // The content is what lies in `memory`, which was made with this placement,
  // which outlives the block.
  Block(size_t elements, uint64_t life, BlockMemory memory,
        const BlockPlacement* placement);

  static BlockMemory MakeMemory(size_t elements, size_t slot_words,
                                const BlockPlacement* placement,
                                SpareBuffers* spare);

  size_t elements() const { return elements_; }
  // Changes with every push.
  v1::BlockVersion version() const;
  uint64_t life() const { return life_; }
  // Under another name the same counters may come to mean other content.
  void set_life(uint64_t life) { life_ = life; }
  // Pushes contained, those before a restore included.
  uint64_t applied() const { return applied_; }

  // The version as of the push that last changed a number: of two contents of
  // one life, one made from the other by pushes, the numbers are the same if
  // this is. A gradient of zeros need not change any, which is noticed unless
  // it lies on a device.
  v1::BlockVersion changed() const;

  // References to the present content: values in the placement's format, and
  // all slots one after another.
  const Buffer& values() const { return values_; }
  const Buffer& slots() const { return slots_; }

  // Of values and slots, which go on from the bytes that `sum` is of.
  uint32_t Checksum(uint32_t sum = 0) const;

  // What both take of the budget, and how much of it a push would have to
  // replace.
  size_t bytes() const;
  size_t read_bytes() const;

  // Reads the gradient of this block and applies it. Replaced buffers go to
  // `spare`; where no number would change, none is replaced. REQUIRES: 4 *
  // elements() bytes of finite numbers remain.
  void Apply(const Optimizer& optimizer, const NumberReader& gradient,
             SpareBuffers* spare, const ApplyOptions& options = {});

  // The same for a gradient of what a call names: other rows stay. A key
  // without a row gets one, if the policy gives it one, or its gradient is
  // dropped, which is counted. Values of 16 bits are rounded by chance
  // (EncodeBf16ByChance), which is a function of the pushes contained, of the
  // key and of the place in its row. REQUIRES: as Apply, for those rows; the
  // block has them.
  void ApplyRows(const Optimizer& optimizer, const RowIds& ids,
                 const NumberReader& gradient, SpareBuffers* spare,
                 const ApplyOptions& options, TableCounts* counts);
  // Copies what these rows hold to `out`, one after the other. Counts what it
  // finds of keys, and where. Changes no row. REQUIRES: they are named.
  void CopyRows(const RowIds& ids, float* out, TableCounts* counts);
  // What CopyRows, and ApplyRows thereafter, will touch of rows that are not
  // fast. REQUIRES: they have keys.
  void AddSlowRows(const RowIds& ids,
                   std::vector<absl::Span<const std::byte>>* pieces);
  // A call touches a few rows of each of many blocks, which are in no cache. So
  // for some blocks together it has fetched what it will touch, in these steps,
  // each of which needs what the one before it has fetched. `pushes`: null if
  // rows are only read.
  enum class FetchStep { kPlaces, kKeys, kRows };
  void Fetch(FetchStep step, const RowIds& ids, const Optimizer* pushes,
             const VariableOptions& variable) const;

  // Rows that have a key. REQUIRES: the variable is keyed, rows are so wide.
  size_t CountKeys(size_t width) { return table_.size(Columns(width)); }

  // Of the gradients applied, where that is asked for.
  GradientRms& gradient_rms() { return gradient_rms_; }
  const GradientRms& gradient_rms() const { return gradient_rms_; }

  // As Slice::BeginTrained says.
  void BeginTrained(const Optimizer& optimizer, const VariableOptions& variable,
                    size_t width);

  // To fill a fresh block. REQUIRES: no reference was handed out.
  absl::Span<float> mutable_slots();
  // REQUIRES: they are float32.
  absl::Span<float> mutable_values();
  // In whatever format.
  absl::Span<std::byte> mutable_value_bytes() {
    return values_.mutable_bytes();
  }
  // Rounded to nearest, where they are not float32. REQUIRES: elements() of
  // them.
  void SetValues(absl::Span<const float> values);
  void set_applied(uint64_t applied) { applied_ = changed_ = applied; }

 private:
  // Whether a gradient of zeros changes nothing; looks at the slots once.
  bool Rests(const Optimizer& optimizer, const VariableOptions& variable);
  // Of a keyed variable; to be written only if nobody else reads them.
  KeyTable::Columns Columns(size_t width) const;
  bool is_narrow() const { return placement_->format != NumberFormat::kFp32; }
  size_t value_bytes() const { return BytesOf(placement_->format); }
  void ApplyKeys(const Optimizer& optimizer, const RowIds& keys,
                 const NumberReader& gradient, SpareBuffers* spare,
                 const ApplyOptions& options, TableCounts* counts);
  // What it does once keys have rows, of which those at `fresh` in `rows` are
  // new.
  struct KeyedRows {
    absl::Span<const uint32_t> rows;
    absl::Span<const size_t> fresh;
    absl::Span<const KeyTable::Move> moves;
  };
  void ApplyKeyedRows(const Optimizer& optimizer, const RowIds& keys,
                      const KeyedRows& keyed, const NumberReader& gradient,
                      float* values, const ApplyOptions& options);
  void CopyKeys(const RowIds& keys, float* out, TableCounts* counts);
  // Nothing for kNoRow.
  void CopyNumbered(const Rows& rows, float* out) const;
  // Others read neither thereafter. What lies on a disk may not be written yet.
  void MakeUnique(SpareBuffers* spare);
  // Now it may. REQUIRES: MakeUnique.
  void SeparateDisk(SpareBuffers* spare);

  size_t elements_;
  uint64_t life_;
  uint64_t applied_ = 0;
  uint64_t changed_ = 0;                  // What applied_ was after it.
  absl::optional<bool> slots_are_zeros_;  // Unset: not known.
  GradientRms gradient_rms_;
  Buffer values_;
  Buffer slots_;
  const BlockPlacement* placement_;
  KeyTable table_;  // Of a keyed variable.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_BLOCK_H_
