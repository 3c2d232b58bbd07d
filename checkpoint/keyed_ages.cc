#include "checkpoint/keyed_ages.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "config/optimizer_slots.h"
#include "tensor/buffer.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

constexpr uint64_t kRowsAtOnce = uint64_t{4 << 20} / sizeof(uint64_t);

}  // namespace

void KeyedAges::Add(uint64_t used, uint64_t applied) {
  if (used == 0) return;
  // A row that a warm start took counts as used by the push to come.
  const uint64_t age = applied - std::min(applied, used);
  size_t place = 0;
  for (uint64_t limit = 10; place + 1 < rows.size() && age >= limit;
       limit *= 10) {
    ++place;
  }
  ++rows[place];
}

uint64_t KeyedAges::all() const {
  return std::accumulate(rows.begin(), rows.end(), uint64_t{0});
}

absl::StatusOr<KeyedAges> AgesOf(const SliceIndex::Entry& entry,
                                 CheckpointReader* reader) {
  const uint64_t bucket = BucketRows(entry.shape.row_elements);
  KeyedAges ages;
  std::vector<uint64_t> used;
  for (const SliceIndex::Saved& saved : entry.saved) {
    const std::vector<uint64_t> applied = AppliedOf(*saved.slice);
    const uint64_t first = saved.slice->row_begin();
    for (uint64_t row = first; row < saved.slice->row_end();
         row += used.size()) {
      used.resize(std::min(kRowsAtOnce, saved.slice->row_end() - row));
      BufferChain chain;
      RETURN_IF_ERROR(reader->Read({&entry, std::string(kUsedSlot)},
                                   row * sizeof(uint64_t),
                                   used.size() * sizeof(uint64_t), &chain));
      ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(used)));
      for (size_t i = 0; i < used.size(); ++i) {
        const uint64_t block = (row + i - first) / bucket;
        ages.Add(used[i], block < applied.size() ? applied[block] : used[i]);
      }
    }
  }
  return ages;
}

}  // namespace paramd
