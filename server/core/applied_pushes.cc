#include "server/core/applied_pushes.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// -1, 0, 1: whether (generation, sequence) is before, at or after the other.
int Compare(const v1::SessionId& generation, uint64_t sequence,
            const v1::SessionId& other_generation, uint64_t other_sequence) {
  if (generation != other_generation) {
    return generation < other_generation ? -1 : 1;
  }
  if (sequence == other_sequence) return 0;
  return sequence < other_sequence ? -1 : 1;
}

}  // namespace

absl::StatusOr<AppliedPushes::Admission> AppliedPushes::Admit(
    const PushId& push, int block) const {
  if (block < 0 || block >= block_count_) {
    return Refuse(v1::Refusal::INVALID, absl::StrCat("block ", block),
                  absl::StrCat("push names block ", block, "; the slice has ",
                               block_count_));
  }
  const auto it = entries_.find(push.worker);
  if (it == entries_.end()) return Admission::kApply;
  const Entry& entry = it->second;
  if (push.generation < entry.generation) {
    return Refuse(v1::Refusal::FENCED, absl::StrCat("worker-", push.worker),
                  absl::StrCat("push of worker-", push.worker, " generation ",
                               VersionName(push.generation), "; generation ",
                               VersionName(entry.generation), " is known"));
  }
  const int order =
      Compare(push.generation, push.sequence, entry.generation, entry.sequence);
  if (order < 0) return Admission::kSuperseded;
  if (order > 0) return Admission::kApply;
  if (entry.missing == 0 || entry.blocks_in[block]) {
    return Admission::kAlreadyApplied;
  }
  return Admission::kApply;
}

void AppliedPushes::MarkApplied(const PushId& push, int block) {
  Entry& entry = entries_[push.worker];
  if (Compare(push.generation, push.sequence, entry.generation,
              entry.sequence) > 0) {
    Overwrite(push.worker, &entry, push.generation, push.sequence);
    entry.missing = block_count_;
    if (block_count_ > 1) entry.blocks_in.assign(block_count_, false);
  }
  CHECK(entry.missing > 0 && push.sequence == entry.sequence,
        "a block is marked only after it was admitted");
  if (--entry.missing == 0) {
    entry.blocks_in.clear();
  } else {
    entry.blocks_in[block] = true;
  }
}

void AppliedPushes::Fence(uint32_t worker, const v1::SessionId& generation) {
  Entry& entry = entries_[worker];
  if (entry.generation < generation) {
    Overwrite(worker, &entry, generation, 0);
  }
}

void AppliedPushes::Restore(const v1::PushRecord& record, bool same_blocks) {
  if (IsZero(record.generation())) return RestoreCount(record);
  Entry& entry = entries_[record.worker()];
  if (Compare(record.generation(), record.sequence(), entry.generation,
              entry.sequence) <= 0) {
    return;
  }
  entry =
      Entry{record.generation(), record.sequence(), 0, {}, record.earlier()};
  if (!same_blocks || record.missing_blocks().empty()) return;
  entry.blocks_in.assign(block_count_, true);
  for (const uint32_t block : record.missing_blocks()) {
    if (block >= static_cast<uint32_t>(block_count_)) continue;
    if (entry.blocks_in[block]) ++entry.missing;
    entry.blocks_in[block] = false;
  }
  if (entry.missing == 0) entry.blocks_in.clear();
}

void AppliedPushes::RestorePartial(const v1::PushRecord& record) {
  NotePartial(record);
}

void AppliedPushes::RestoreCount(const v1::PushRecord& record) {
  entries_[record.worker()].earlier +=
      record.earlier() + (record.sequence() > 0 ? 1 : 0);
  if (!record.missing_blocks().empty()) NotePartial(record);
}

void AppliedPushes::Save(v1::SavedSlice* saved) const {
  for (const auto& [worker, entry] : entries_) {
    *saved->add_records() = Record(worker, entry);
  }
  for (const v1::PushRecord& record : partial_) *saved->add_partial() = record;
}

v1::PushRecord AppliedPushes::Record(uint32_t worker, const Entry& entry) {
  v1::PushRecord record;
  record.set_worker(worker);
  *record.mutable_generation() = entry.generation;
  record.set_sequence(entry.sequence);
  record.set_earlier(entry.earlier);
  if (entry.missing == 0) return record;
  for (size_t block = 0; block < entry.blocks_in.size(); ++block) {
    if (!entry.blocks_in[block]) record.add_missing_blocks(block);
  }
  return record;
}

void AppliedPushes::Overwrite(uint32_t worker, Entry* entry,
                              const v1::SessionId& generation,
                              uint64_t sequence) {
  if (entry->missing > 0) NotePartial(Record(worker, *entry));
  if (entry->sequence > 0) ++entry->earlier;
  entry->generation = generation;
  entry->sequence = sequence;
  entry->missing = 0;
  entry->blocks_in.clear();
}

void AppliedPushes::NotePartial(v1::PushRecord record) {
  if (partial_.size() == kMostPartial) {
    partial_.pop_front();
    ++partial_dropped_;
  }
  partial_.push_back(std::move(record));
}

}  // namespace paramd
