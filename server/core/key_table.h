#ifndef PARAMD_SERVER_CORE_KEY_TABLE_H_
#define PARAMD_SERVER_CORE_KEY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace paramd {

// Rows of a keyed variable, since the server took up its content.
struct TableCounts {
  uint64_t created = 0;  // Keys that got a row.
  uint64_t evicted = 0;  // Of those, whose row was another key's.
  uint64_t ignored = 0;  // Gradients of rows that were dropped.
};

// Which row of a block each key has. All that lasts are two numbers beside each
// row: its key, and when it was last used, 0 for a row without a key. This is an
// index of them, made at first use, and the rows that come next when a new key
// needs one: those without a key, then those unused for longest; of equals the
// lower one.
//
// Invariant: which row a key gets is a function of those numbers alone, so that
// a block that was restored goes on as the one that was saved.
//
// Not thread-safe: lives inside a Block. A copy is of other memory, and finds
// out for itself.
class KeyTable {
 public:
  // Of each row of the block. The caller's, the same at each call but for its
  // place in memory.
  struct Columns {
    absl::Span<uint64_t> keys;
    absl::Span<uint64_t> used;
  };

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

  // The same for those of a gradient: each is used `now`, and who has no row gets
  // one, whose key and use are set. `fresh` gets the places in `rows` of those.
  // kNoRow is left where all rows are used now, or, without `evicts`, have a key.
  // REQUIRES: mixed keys, each once; `now` is above all uses before.
  void FindOrCreate(absl::Span<const uint64_t> mixed, uint64_t now, bool evicts,
                    const Columns& columns, absl::Span<uint32_t> rows,
                    std::vector<size_t>* fresh, TableCounts* counts);

  // Rows with a key.
  size_t size(const Columns& columns);

 private:
  // A row that may come next, and its use when it was found.
  struct Candidate {
    uint64_t used;
    uint32_t row;
  };

  void Build(const Columns& columns);
  size_t PlaceOf(uint64_t mixed) const { return mixed & (places_.size() - 1); }
  uint32_t FindOne(uint64_t mixed, const Columns& columns) const;
  void Insert(uint64_t mixed, uint32_t row);
  void Remove(uint32_t row, const Columns& columns);
  // The row that comes next and is not used now; kNoRow if there is none.
  uint32_t TakeNext(uint64_t now, const Columns& columns);
  void FindCandidates(uint64_t now, const Columns& columns);

  // Open addressing, at most half full, of rows + 1; 0: nothing.
  std::vector<uint32_t> places_;
  size_t free_ = 0;  // Rows without a key.
  std::vector<Candidate> candidates_;  // In order; from next_ on.
  size_t next_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_KEY_TABLE_H_
