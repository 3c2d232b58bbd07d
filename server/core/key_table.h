#ifndef PARAMD_SERVER_CORE_KEY_TABLE_H_
#define PARAMD_SERVER_CORE_KEY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "config/fast_rows.h"
#include "proto/paramd/v1/types.pb.h"
#include "server/core/distinct_count.h"
#include "server/core/key_sketch.h"
#include "server/core/row_queue.h"
#include "tensor/keyed_rows.h"

namespace paramd {

// Rows of a keyed variable, since the server took up its content.
struct TableCounts {
  uint64_t created = 0;       // Keys that got a row.
  uint64_t evicted = 0;       // Of those, whose row was another key's.
  uint64_t ignored = 0;       // Gradients of keys for which no row was left,
  uint64_t not_admitted = 0;  // or that were not named often enough for one.
  uint64_t expired = 0;       // Rows whose keys nothing named any more.
  uint64_t looked_up = 0;     // Keys; and those whose rows were not fast.
  uint64_t on_disk = 0;
  DistinctCount keys;  // That asked for a row, admitted ones.
};

// Who gets a row, and for how long.
struct KeyPolicy {
  bool evicts = true;         // Else a new key gets none where all are in use.
  uint32_t admit_after = 1;   // With which of the gradients that name it.
  uint64_t expire_after = 0;  // Pushes that do not name it; 0: for ever.
  // The first so many rows are fast; 0: all. A key that a gradient names gets
  // one of them.
  size_t fast_rows = 0;

  // Where not all rows are fast, so many have no key, at least.
  size_t spare_rows() const { return SpareRowsFor(fast_rows); }
};
KeyPolicy KeyPolicyOf(const v1::Variable& variable);

// Which row of a block each key has. What lasts are numbers beside each row:
// its key, when it was last used (0: the row has no key) and, if keys are
// admitted late, counters of those without a row. This is an index of these
// numbers, made at first use.
//
// If only the first rows are fast (the others lie on a disk), the keys of a
// gradient move to fast ones. When these are used up, a quarter of them, those
// unused for longest, move to slow ones, all at once: their places then lie
// close together, and pages of the disk are written with several rows each. For
// that, some rows are kept without a key.
//
// Invariant: which row a key gets is a function of those numbers alone, so that
// a block that was restored goes on as the one that was saved.
//
// Not thread-safe: lives inside a Block. A copy is empty: it is for numbers in
// other memory, and makes an index of its own.
class KeyTable {
 public:
  // Of each row of the block. The caller's, the same at each call but for its
  // place in memory.
  struct Columns {
    absl::Span<uint64_t> keys;
    absl::Span<uint64_t> used;
    absl::Span<uint64_t> sketch;  // Not looked at if the first gradient admits.
  };

  static constexpr size_t kSweep = 64;

  // That the index of so many rows takes at most.
  static uint64_t MostBytes(size_t rows);

  KeyTable() = default;
  KeyTable(const KeyTable&) {}
  KeyTable& operator=(const KeyTable&) {
    *this = KeyTable();
    return *this;
  }
  KeyTable(KeyTable&&) = default;
  KeyTable& operator=(KeyTable&&) = default;

  // Of mixed keys; kNoRow for those without a row.
  void Find(absl::Span<const uint64_t> mixed, const Columns& columns,
            absl::Span<uint32_t> rows);

  // What Find touches for a key, fetched into a cache: first its place, then
  // the key that stands there. Nothing before there is an index.
  void FetchPlaces(absl::Span<const uint64_t> mixed) const;
  void FetchKeys(absl::Span<const uint64_t> mixed,
                 const Columns& columns) const;
  // Its row then, which is fetched next; kNoRow: there is none, or no index.
  uint32_t Peek(uint64_t mixed, const Columns& columns) const {
    return places_.empty() ? kNoRow : FindOne(mixed, columns);
  }

  // The same for those of a gradient: each is used `now`, and who has no row
  // gets one, whose key and use are set. `fresh` gets the places in `rows` of
  // those. kNoRow is left for keys that the policy does not admit, or for which
  // it leaves no row; one that is used now goes to no other key. Of the rows
  // that have expired those lose their keys that are in the part which `now`
  // says: of kSweep calls with one number after the other each row is in one.
  // What rows hold besides key and use goes along with `moves`, in this order;
  // fresh rows hold nothing before. REQUIRES: mixed keys, each once; no use
  // before was after `now`.
  struct Move {
    uint32_t from;
    uint32_t to;
  };
  void FindOrCreate(absl::Span<const uint64_t> mixed, uint64_t now,
                    const KeyPolicy& policy, const Columns& columns,
                    absl::Span<uint32_t> rows, std::vector<size_t>* fresh,
                    std::vector<Move>* moves, TableCounts* counts);

  // Rows with a key.
  size_t size(const Columns& columns);

 private:
  void Build(const Columns& columns);
  size_t PlaceOf(uint64_t mixed) const { return mixed & (places_.size() - 1); }
  uint32_t FindOne(uint64_t mixed, const Columns& columns) const;
  void Insert(uint64_t mixed, uint32_t row);
  void Remove(uint32_t row, const Columns& columns);
  uint32_t& PlaceWith(uint32_t row, const Columns& columns);
  // What belongs to one call of FindOrCreate.
  struct Push {
    uint64_t now;
    const KeyPolicy& policy;
    const Columns& columns;
    std::vector<Move>* moves;
    TableCounts* counts;
    // Below it each slow row has a key.
    uint32_t free_slow;
    bool all_fast_are_used = false;  // Now.
  };
  // Looks at one part of the rows, the next one with each push.
  void Expire(const Push& push);
  bool Admits(uint64_t mixed, const Push& push);
  // kNoRow if there is none for the key, which is counted then.
  uint32_t Create(uint64_t mixed, Push* push);
  uint32_t TakeRow(Push* push);
  // The row loses its key.
  void Free(uint32_t row, const Push& push);

  // The same where not all rows are fast.
  bool HasSlowRows(const KeyPolicy& policy, const Columns& columns) const {
    return policy.fast_rows > 0 && policy.fast_rows < columns.used.size();
  }
  void FindFreeFastRows(const Push& push);
  uint32_t TakeRowOfSome(Push* push);
  // Frees the row of the key that goes first; kNoRow if all are used now.
  uint32_t EvictOne(Push* push);
  void AddFreeFast(uint32_t row);
  // kNoRow if all fast rows are used now.
  uint32_t TakeFast(Push* push);
  void MakeFastRowsFree(const Push& push);
  // To one without a key.
  void MoveRow(uint32_t from, uint32_t to, const Push& push);

  // Open addressing, at most half full, of rows + 1; 0: nothing.
  std::vector<uint32_t> places_;
  size_t free_ = 0;  // Rows without a key.
  // Where all rows are fast, of all; else of those with a key.
  RowQueue next_;
  // Fast rows without a key, the lowest last. Unset: not looked for.
  absl::optional<std::vector<uint32_t>> free_fast_;
  KeySketch sketch_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_KEY_TABLE_H_
