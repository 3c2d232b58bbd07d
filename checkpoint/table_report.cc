#include "checkpoint/table_report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "checkpoint/number_histogram.h"
#include "config/optimizer_slots.h"
#include "tensor/buffer.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

constexpr size_t kHottest = 10;

absl::StatusOr<const SliceIndex::Entry*> FindTable(
    const CheckpointReader& reader, const std::string& name) {
  std::vector<std::string> known;
  for (const SliceIndex::Entry& entry : reader.index().entries()) {
    if (!entry.variable->keyed()) continue;
    if (entry.variable->name() == name) return &entry;
    known.push_back(absl::StrCat("'", entry.variable->name(), "'"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", reader.directory(), "' has no table '", name, "' of rows by key; ",
      known.empty() ? "it has none"
                    : absl::StrCat("it has ", absl::StrJoin(known, ", "))));
}

// More gradients, then a lower key.
bool IsHotter(const TableReport::Gradients::Row& a,
              const TableReport::Gradients::Row& b) {
  return std::make_pair(b.gradients, a.key) <
         std::make_pair(a.gradients, b.key);
}

// The numbers of one bucket's rows.
struct Bucket {
  std::vector<float> values;  // [rows, width]
  std::vector<uint64_t> keys;
  std::vector<uint64_t> used;
  std::vector<float> steps;      // Empty: not kept.
  std::vector<uint64_t> sketch;  // Empty: not kept. Eight counters a row.
};

// Takes in buckets, one after the other.
class TableReader {
 public:
  TableReader(const SliceIndex::Entry& entry, CheckpointReader* reader)
      : entry_(entry), reader_(reader) {
    report_.variable = *entry.variable;
    report_.row_bytes = RowBytes(reader->manifest(), entry);
    for (const Slot& slot : SlotsOf(reader->manifest(), *entry.variable)) {
      if (slot.name == kStepsSlot) report_.gradients.emplace();
      if (slot.name == kSketchSlot) report_.sketch.emplace();
    }
    report_.buckets.rows_of_each =
        std::min(entry.shape.rows, BucketRows(entry.shape.row_elements));
  }

  // The bucket of these rows, whose block has taken `applied` pushes.
  absl::Status Take(RowRange rows, absl::optional<uint64_t> applied) {
    RETURN_IF_ERROR(Read(rows, "", entry_.shape.row_elements, &bucket_.values));
    RETURN_IF_ERROR(Read(rows, kKeySlot, 1, &bucket_.keys));
    RETURN_IF_ERROR(Read(rows, kUsedSlot, 1, &bucket_.used));
    if (report_.gradients.has_value()) {
      RETURN_IF_ERROR(Read(rows, kStepsSlot, 1, &bucket_.steps));
    }
    if (report_.sketch.has_value()) {
      RETURN_IF_ERROR(Read(rows, kSketchSlot, 1, &bucket_.sketch));
      CountSketch();
    }
    uint64_t with_key = 0;
    for (size_t row = 0; row < bucket_.used.size(); ++row) {
      const uint64_t used = bucket_.used[row];
      if (used == 0) continue;
      ++with_key;
      report_.ages.Add(used, applied.value_or(used));
      AddNorm(row);
      if (report_.gradients.has_value()) AddGradients(row);
    }
    CountBucket(with_key, bucket_.used.size());
    return absl::OkStatus();
  }

  TableReport Finish() {
    for (const double share : {0., 0.01, 0.1, 0.5, 0.9, 0.99, 1.}) {
      if (norms_.count() == 0) break;
      report_.norms.quantiles.push_back({share, norms_.Quantile(share)});
    }
    if (report_.gradients.has_value()) FinishGradients();
    return std::move(report_);
  }

 private:
  // `width` numbers of each row.
  template <typename T>
  absl::Status Read(RowRange rows, absl::string_view slot, uint64_t width,
                    std::vector<T>* out) {
    out->resize((rows.end - rows.begin) * width);
    BufferChain chain;
    RETURN_IF_ERROR(reader_->Read({&entry_, std::string(slot)},
                                  rows.begin * width * sizeof(T),
                                  out->size() * sizeof(T), &chain));
    ChainReader(chain).Read(AsWritableBytes(absl::MakeSpan(*out)));
    return absl::OkStatus();
  }

  void CountBucket(uint64_t with_key, uint64_t rows) {
    report_.rows += with_key;
    TableReport::Buckets& buckets = report_.buckets;
    ++buckets.count;
    buckets.full += with_key == rows;
    const uint64_t tenth = with_key * buckets.by_fill.size() / rows;
    ++buckets.by_fill[std::min<uint64_t>(tenth, buckets.by_fill.size() - 1)];
  }

  void CountSketch() {
    const uint32_t admit_after = entry_.variable->admit_after();
    for (uint64_t eight : bucket_.sketch) {
      for (int i = 0; i < 8; ++i, eight >>= 8) {
        const uint32_t counter = eight & 255;
        report_.sketch->in_use += counter > 0;
        report_.sketch->waiting += counter > 0 && counter < admit_after;
      }
    }
    report_.sketch->counters += 8 * bucket_.sketch.size();
  }

  void AddNorm(size_t row) {
    const uint64_t width = entry_.shape.row_elements;
    double sum = 0;
    for (uint64_t i = 0; i < width; ++i) {
      const double value = bucket_.values[row * width + i];
      sum += value * value;
    }
    if (!std::isfinite(sum)) {
      ++report_.norms.not_finite;
      return;
    }
    report_.norms.zero += sum == 0;
    norms_.Add(std::sqrt(sum));
  }

  void AddGradients(size_t row) {
    // A float's whole numbers; what no server writes counts for nothing.
    const float steps = bucket_.steps[row];
    const bool counts = steps >= 0 && steps < 0x1p63f;
    TableReport::Gradients::Row hot = {0, 0};
    std::memcpy(&hot.key, &bucket_.keys[row], sizeof(hot.key));
    if (counts) hot.gradients = static_cast<uint64_t>(steps);
    gradients_.Add(static_cast<double>(hot.gradients));
    std::vector<TableReport::Gradients::Row>& hottest =
        report_.gradients->hottest;
    if (hottest.size() == kHottest && !IsHotter(hot, hottest.back())) return;
    hottest.insert(
        std::upper_bound(hottest.begin(), hottest.end(), hot, IsHotter), hot);
    if (hottest.size() > kHottest) hottest.pop_back();
  }

  void FinishGradients() {
    TableReport::Gradients& all = *report_.gradients;
    all.all = gradients_.sum();
    if (all.all == 0) return;
    for (uint64_t rows = 1; rows < report_.rows; rows *= 10) {
      all.shares.push_back({rows, gradients_.SumOfLargest(rows) / all.all});
    }
    all.shares.push_back({report_.rows, 1});
  }

  const SliceIndex::Entry& entry_;
  CheckpointReader* const reader_;
  Bucket bucket_;  // The last that was read.
  NumberHistogram norms_;
  NumberHistogram gradients_;
  TableReport report_;
};

}  // namespace

absl::StatusOr<TableReport> ReportTable(
    CheckpointReader* reader, const std::string& name,
    const std::function<void(uint64_t bytes, uint64_t total)>& progress) {
  ASSIGN_OR_RETURN(const SliceIndex::Entry* const entry,
                   FindTable(*reader, name));
  const uint64_t bucket = BucketRows(entry->shape.row_elements);
  TableReader table(*entry, reader);
  for (const SliceIndex::Saved& saved : entry->saved) {
    const std::vector<uint64_t> applied = AppliedOf(*saved.slice);
    uint64_t row = saved.slice->row_begin();
    for (size_t block = 0; row < saved.slice->row_end(); ++block) {
      const uint64_t end = std::min(row + bucket, saved.slice->row_end());
      absl::optional<uint64_t> pushes;
      if (block < applied.size()) pushes = applied[block];
      RETURN_IF_ERROR(table.Take({row, end}, pushes));
      if (progress) progress(reader->read_bytes(), reader->total_bytes());
      row = end;
    }
  }
  RETURN_IF_ERROR(reader->Finish(progress));
  return table.Finish();
}

}  // namespace paramd
