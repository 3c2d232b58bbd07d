#include "coordinator/core/push_audit.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

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

}  // namespace

PushAudit::PushAudit(const v1::Manifest& manifest, bool sync) {
  for (const v1::ShardFile& file : manifest.files()) {
    for (const v1::SavedSlice& slice : file.slices()) {
      if (!sync && slice.partial_size() >= kMostPartial) continue;
      const uint64_t pushes = sync ? manifest.global_step() : PushesOf(slice);
      const auto missing =
          sync ? std::map<uint64_t, uint64_t>() : MissingByBlock(slice);
      uint64_t block = 0;
      for (const v1::AppliedRun& run : slice.applied()) {
        for (uint32_t i = 0; i < run.blocks(); ++i, ++block) {
          const auto left_out = missing.find(block);
          const uint64_t less =
              left_out == missing.end() ? 0 : left_out->second;
          Compare(slice, file.name(), block, run.applied(),
                  pushes - std::min(pushes, less));
        }
      }
    }
  }
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
