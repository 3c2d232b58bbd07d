#include "checkpoint/resized_table.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/optimizer_slots.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Whose keys and uses are read at once.
constexpr uint64_t kFoundAtOnce = uint64_t{2 << 20} / sizeof(uint64_t);

// Pushes of a worker that a slice has.
uint64_t PushesIn(const v1::PushRecord& record) {
  return record.earlier() + (record.sequence() > 0 ? 1 : 0);
}

// Pushes to a block that has all of which another one has a part.
uint64_t PushesTo(const v1::SavedSlice& slice) {
  std::vector<uint64_t> pushes = AppliedOf(slice);
  const auto add_missing = [&pushes](const auto& records) {
    for (const v1::PushRecord& record : records) {
      for (const uint32_t block : record.missing_blocks()) {
        if (block < pushes.size()) ++pushes[block];
      }
    }
  };
  add_missing(slice.records());
  add_missing(slice.partial());
  return pushes.empty() ? 0 : *std::max_element(pushes.begin(), pushes.end());
}

// The newer push, and the larger number of them.
void Join(const v1::PushRecord& record, v1::PushRecord* joined) {
  const uint64_t pushes = std::max(PushesIn(record), PushesIn(*joined));
  joined->set_worker(record.worker());
  if (joined->generation() < record.generation() ||
      (joined->generation() == record.generation() &&
       joined->sequence() < record.sequence())) {
    *joined->mutable_generation() = record.generation();
    joined->set_sequence(record.sequence());
  }
  joined->set_earlier(pushes - (joined->sequence() > 0 ? 1 : 0));
}

absl::Status AppendTo(ReadTarget* out, absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const absl::Span<std::byte> memory = out->Next(bytes.size());
    if (memory.empty()) {
      return absl::DataLossError(
          "the wanted rows have more than there is "
          "memory for");
    }
    std::memcpy(memory.data(), bytes.data(), memory.size());
    bytes.remove_prefix(memory.size());
  }
  return absl::OkStatus();
}

}  // namespace

ResizedTable::ResizedTable(const v1::ReadSlices::Want& want,
                           const SliceIndex::Entry& entry, TensorSource* source)
    : entry_(&entry),
      source_(source),
      wanted_{want.row_begin(), want.row_end()},
      all_rows_(want.shape(0)),
      bucket_rows_(
          std::min(want.shape(0), BucketRows(entry.shape.row_elements))) {}

absl::StatusOr<ResizedTable> ResizedTable::Open(
    const v1::ReadSlices::Want& want, const SliceIndex::Entry& entry,
    TensorSource* source) {
  RETURN_IF_ERROR(CheckKeyedRows(want.shape(0), entry.shape.row_elements));
  ResizedTable table(want, entry, source);
  const RowRange rows = table.wanted_;
  if (rows.begin % table.bucket_rows_ != 0 ||
      rows.end % table.bucket_rows_ != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows [", rows.begin, ", ", rows.end, ") of '", want.variable(),
        "' are not whole buckets of ", table.bucket_rows_));
  }
  const uint64_t first = rows.begin / table.bucket_rows_;
  const uint64_t end = rows.end / table.bucket_rows_;
  table.sources_ = SavedPartsOf(
      entry, {table.RangeOf(first).begin, table.RangeOf(end - 1).end});
  table.JoinCounts();
  for (uint64_t bucket = first; bucket < end; ++bucket) {
    RETURN_IF_ERROR(table.FindRows(bucket));
  }
  return table;
}

void ResizedTable::JoinCounts() {
  std::map<uint32_t, v1::PushRecord> joined;  // By worker.
  uint64_t most_recorded = 0;
  float rms = 0;
  for (const SavedPart& part : sources_) {
    const v1::SavedSlice& slice = *part.saved->slice;
    uint64_t recorded = 0;
    for (const v1::PushRecord& record : slice.records()) {
      recorded += PushesIn(record);
      Join(record, &joined[record.worker()]);
    }
    most_recorded = std::max(most_recorded, recorded);
    pushes_ = std::max(pushes_, PushesTo(slice));
    for (const float value : slice.gradient_rms()) rms = std::max(rms, value);
  }
  uint64_t recorded = 0;
  for (const auto& [worker, record] : joined) {
    recorded += PushesIn(record);
    *counts_.add_records() = record;
  }
  // Each of two blocks may have a push that the other has not.
  pushes_ += recorded - most_recorded;
  counts_.set_variable(entry_->variable->name());
  counts_.set_row_begin(wanted_.begin);
  counts_.set_row_end(wanted_.end);
  const auto blocks =
      static_cast<uint32_t>((wanted_.end - wanted_.begin) / bucket_rows_);
  v1::AppliedRun* const applied = counts_.add_applied();
  applied->set_applied(pushes_);
  applied->set_blocks(blocks);
  if (rms == 0) return;
  counts_.mutable_gradient_rms()->Resize(static_cast<int>(blocks), rms);
}

absl::Status ResizedTable::FindRows(uint64_t bucket) {
  const size_t first = rows_.size();
  for (const SavedPart& part : SavedPartsOf(*entry_, RangeOf(bucket))) {
    RETURN_IF_ERROR(FindIn(part, bucket));
  }
  ends_.push_back(rows_.size());
  const size_t found = rows_.size() - first;
  if (found > bucket_rows_) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", entry_->variable->name(), "' has ", found,
                     " rows with a key in the checkpoint for a bucket of ",
                     bucket_rows_, " rows: give it a larger capacity"));
  }
  std::vector<size_t> order(found);
  std::iota(order.begin(), order.end(), first);
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return rows_[a].used > rows_[b].used;
  });
  const uint64_t place = bucket * bucket_rows_ - wanted_.begin;
  for (size_t i = 0; i < found; ++i) rows_[order[i]].place = place + i;
  return absl::OkStatus();
}

absl::Status ResizedTable::FindIn(const SavedPart& part, uint64_t bucket) {
  const std::vector<uint64_t> applied = AppliedOf(*part.saved->slice);
  const uint64_t first = part.saved->slice->row_begin();
  std::vector<uint64_t> keys;
  std::vector<uint64_t> used;
  for (uint64_t row = part.rows.begin; row < part.rows.end;
       row += keys.size()) {
    keys.resize(std::min(kFoundAtOnce, part.rows.end - row));
    used.resize(keys.size());
    const RowRange window = {row, row + keys.size()};
    RETURN_IF_ERROR(ReadThere(std::string(kKeySlot), window,
                              AsWritableBytes(absl::MakeSpan(keys))));
    RETURN_IF_ERROR(ReadThere(std::string(kUsedSlot), window,
                              AsWritableBytes(absl::MakeSpan(used))));
    for (size_t i = 0; i < keys.size(); ++i) {
      if (used[i] == 0 || BucketOf(MixKey(keys[i]), buckets()) != bucket) {
        continue;
      }
      const uint64_t block = (row + i - first) / BucketRows(width());
      const uint64_t then = block < applied.size() ? applied[block] : pushes_;
      // A row that a warm start took counts as used by the push to come.
      const uint64_t last = std::min(used[i], then + 1);
      rows_.push_back({row + i, last + (pushes_ - then), /*place=*/0});
    }
  }
  return absl::OkStatus();
}

absl::Status ResizedTable::ReadThere(const std::string& slot, RowRange rows,
                                     absl::Span<std::byte> bytes) const {
  SpanTarget target(bytes);
  for (const SavedPart& part : SavedPartsOf(*entry_, rows)) {
    RETURN_IF_ERROR(ReadSavedPart(part, *entry_, slot, source_, &target));
  }
  return absl::OkStatus();
}

absl::Status ResizedTable::Gather(const std::string& slot,
                                  absl::Span<const Row> rows, uint64_t first,
                                  absl::Span<std::byte> bytes) const {
  if (slot == kSketchSlot) return absl::OkStatus();
  const uint64_t row_bytes = BytesBeside(width(), slot, *entry_);
  if (slot == kUsedSlot) {
    for (const Row& row : rows) {
      std::memcpy(&bytes[(row.place - first) * row_bytes], &row.used,
                  sizeof(row.used));
    }
    return absl::OkStatus();
  }
  std::vector<std::byte> there;
  for (size_t i = 0; i < rows.size();) {
    // Those of one bucket there.
    const uint64_t begin = rows[i].there;
    const uint64_t bucket = begin / BucketRows(width());
    size_t next = i;
    while (next < rows.size() &&
           rows[next].there / BucketRows(width()) == bucket) {
      ++next;
    }
    const RowRange range = {begin, rows[next - 1].there + 1};
    there.resize((range.end - range.begin) * row_bytes);
    RETURN_IF_ERROR(ReadThere(slot, range, absl::MakeSpan(there)));
    for (; i < next; ++i) {
      std::memcpy(&bytes[(rows[i].place - first) * row_bytes],
                  &there[(rows[i].there - begin) * row_bytes], row_bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status ResizedTable::Read(const std::string& slot,
                                ReadTarget* out) const {
  std::vector<std::byte> bytes(bucket_rows_ *
                               BytesBeside(width(), slot, *entry_));
  size_t begin = 0;
  uint64_t first = 0;
  for (const size_t end : ends_) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    RETURN_IF_ERROR(
        Gather(slot, absl::MakeConstSpan(rows_).subspan(begin, end - begin),
               first, absl::MakeSpan(bytes)));
    RETURN_IF_ERROR(AppendTo(out, bytes));
    begin = end;
    first += bucket_rows_;
  }
  return absl::OkStatus();
}

}  // namespace paramd
