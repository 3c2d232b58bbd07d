#include "coordinator/core/push_audit.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

// Of a block.
struct Counts {
  uint64_t applied = 0;
  uint64_t pushes = 0;  // By the records, or steps.
};

using SliceKey = std::tuple<std::string, uint64_t, uint64_t>;
using SlicesByKey = std::map<SliceKey, const v1::SavedSlice*>;

// How many pushes each block has not, of all that the slice has a block of.
std::map<uint64_t, uint64_t> MissingByBlock(const v1::SavedSlice& slice) {
  std::map<uint64_t, uint64_t> missing;
  const auto count = [&missing](const v1::PushRecord& push) {
    for (const uint32_t block : push.missing_blocks()) ++missing[block];
  };
  for (const v1::PushRecord& record : slice.records()) count(record);
  for (const v1::PushRecord& partial : slice.partial()) count(partial);
  return missing;
}

// Pushes of which the slice has a block.
uint64_t PushesOf(const v1::SavedSlice& slice) {
  uint64_t pushes = 0;
  for (const v1::PushRecord& record : slice.records()) {
    pushes += record.earlier() + (record.sequence() > 0 ? 1 : 0);
  }
  return pushes;
}

std::vector<Counts> CountsOf(const v1::Manifest& manifest,
                             const v1::SavedSlice& slice, bool sync) {
  const uint64_t pushes = sync ? manifest.global_step() : PushesOf(slice);
  std::vector<Counts> counts;
  for (const v1::AppliedRun& run : slice.applied()) {
    counts.insert(counts.end(), run.blocks(), {run.applied(), pushes});
  }
  if (sync) return counts;
  for (const auto& [block, missing] : MissingByBlock(slice)) {
    if (block >= counts.size()) continue;
    counts[block].pushes -= std::min(counts[block].pushes, missing);
  }
  return counts;
}

SlicesByKey SlicesOf(const v1::Manifest& manifest) {
  SlicesByKey slices;
  for (const v1::ShardFile& file : manifest.files()) {
    for (const v1::SavedSlice& slice : file.slices()) {
      slices[{slice.variable(), slice.row_begin(), slice.row_end()}] = &slice;
    }
  }
  return slices;
}

}  // namespace

PushAudit::PushAudit(const v1::Manifest& manifest, bool sync,
                     const v1::Manifest* base) {
  const SlicesByKey before = base == nullptr ? SlicesByKey() : SlicesOf(*base);
  for (const v1::ShardFile& file : manifest.files()) {
    for (const v1::SavedSlice& slice : file.slices()) {
      if (!sync && slice.partial_size() >= kMostPartial) continue;
      std::vector<Counts> counts = CountsOf(manifest, slice, sync);
      if (base != nullptr) {
        const auto found =
            before.find({slice.variable(), slice.row_begin(), slice.row_end()});
        if (found == before.end()) continue;
        const std::vector<Counts> then = CountsOf(*base, *found->second, sync);
        for (size_t b = 0; b < std::min(counts.size(), then.size()); ++b) {
          counts[b].applied -= std::min(counts[b].applied, then[b].applied);
          counts[b].pushes -= std::min(counts[b].pushes, then[b].pushes);
        }
      }
      for (size_t b = 0; b < counts.size(); ++b) {
        Compare(slice, file.name(), b, counts[b].applied, counts[b].pushes);
      }
    }
  }
}

bool PushAudit::HaveSameSlices(const v1::Manifest& a, const v1::Manifest& b) {
  const SlicesByKey of_a = SlicesOf(a);
  const SlicesByKey of_b = SlicesOf(b);
  return std::equal(
      of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
      [](const auto& x, const auto& y) { return x.first == y.first; });
}

void PushAudit::Compare(const v1::SavedSlice& slice, const std::string& file,
                        uint64_t block, uint64_t applied, uint64_t wanted) {
  if (applied == wanted) return;
  if (applied > wanted) {
    doubled_ = std::max(doubled_, applied - wanted);
  } else {
    missing_ = std::max(missing_, wanted - applied);
  }
  if (!sentence_.empty()) return;
  sentence_ = absl::StrCat("block ", block, " of '", slice.values_tensor(),
                           "' in '", file, "' has taken ", applied,
                           " pushes; by its records it has ", wanted);
}

}  // namespace paramd
