#include "server/core/shard_filler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

// Pushes that block `block` of a saved slice contains.
uint64_t AppliedTo(const v1::SavedSlice& saved, uint64_t block) {
  for (const v1::AppliedRun& run : saved.applied()) {
    if (block < run.blocks()) return run.applied();
    block -= run.blocks();
  }
  return 0;
}

v1::ReadSlices::Want WantOf(const Slice& slice) {
  v1::ReadSlices::Want want;
  want.set_variable(slice.variable().name());
  *want.mutable_shape() = slice.variable().shape();
  want.set_row_begin(slice.rows().begin);
  want.set_row_end(slice.rows().end);
  return want;
}

// Of block `block` of a saved slice; 0 if it is not kept.
float GradientRmsOf(const v1::SavedSlice& saved, uint64_t block) {
  return block < static_cast<uint64_t>(saved.gradient_rms_size())
             ? saved.gradient_rms(static_cast<int>(block))
             : 0;
}

}  // namespace

std::unique_ptr<ShardFiller> ShardFiller::FromInitialValues(
    ShardContent* content, uint64_t seed, RandomStream* lives) {
  std::unique_ptr<ShardFiller> filler(new ShardFiller(content, lives));
  filler->seed_ = seed;
  return filler;
}

absl::StatusOr<std::unique_ptr<ShardFiller>> ShardFiller::FromWarmStart(
    ShardContent* content, uint64_t seed, const v1::ReadWarmStartResult& result,
    BufferChain payload, RandomStream* lives) {
  const auto& owned = content->owned();
  if (static_cast<size_t>(result.found_size()) != owned.size()) {
    return absl::DataLossError(
        absl::StrCat("a warm start gave ", result.found_size(),
                     " slices; this server owns ", owned.size()));
  }
  uint64_t bytes = 0;
  for (size_t s = 0; s < owned.size(); ++s) {
    if (!result.found(static_cast<int>(s))) continue;
    bytes += owned[s]->elements() * sizeof(float);
  }
  if (ChainSize(payload) != bytes) {
    return absl::DataLossError(
        absl::StrCat("a warm start gave ", ChainSize(payload),
                     " bytes; the slices that it found have ", bytes));
  }
  auto filler = FromInitialValues(content, seed, lives);
  filler->found_.assign(result.found().begin(), result.found().end());
  filler->payload_ = std::move(payload);
  return filler;
}

absl::StatusOr<std::unique_ptr<ShardFiller>> ShardFiller::FromCheckpoint(
    ShardContent* content, const v1::ReadSlicesResult& result,
    BufferChain payload, absl::string_view run_id, RandomStream* lives) {
  const size_t slices = content->owned().size();
  if (static_cast<size_t>(result.slices_size()) != slices) {
    return absl::DataLossError(
        absl::StrCat("checkpoint gave ", result.slices_size(),
                     " slices; this server owns ", slices));
  }
  if (ChainSize(payload) != content->bytes()) {
    return absl::DataLossError(absl::StrCat(
        "checkpoint gave ", ChainSize(payload),
        " bytes; the slices of this server have ", content->bytes()));
  }
  std::unique_ptr<ShardFiller> filler(new ShardFiller(content, lives));
  filler->restoring_ = true;
  filler->take_records_ = result.manifest().run_id() == run_id;
  filler->result_ = result;
  filler->payload_ = std::move(payload);
  return filler;
}

std::unique_ptr<v1::ReadSlices> ShardFiller::Wanted(
    const ShardContent& content, const std::string& directory) {
  auto wanted = std::make_unique<v1::ReadSlices>();
  wanted->set_path(directory);
  for (const Slice* const slice : content.owned()) {
    *wanted->add_slices() = WantOf(*slice);
  }
  for (const absl::string_view slot : content.optimizer().slots()) {
    wanted->add_slots(std::string(slot));
  }
  return wanted;
}

std::unique_ptr<v1::ReadWarmStart> ShardFiller::Wanted(
    const ShardContent& content, const v1::WarmStartConfig& warm_start) {
  auto wanted = std::make_unique<v1::ReadWarmStart>();
  *wanted->mutable_warm_start() = warm_start;
  for (const Slice* const slice : content.owned()) {
    *wanted->add_slices() = WantOf(*slice);
  }
  return wanted;
}

bool ShardFiller::Step() {
  const size_t parts = 1 + content_->optimizer().slots().size();
  size_t filled = 0;
  while (slice_ < content_->owned().size() && filled < kBlockElements) {
    Slice* const slice = content_->owned()[slice_];
    if (part_ == 0 && block_ == 0) BeginSlice(slice);
    Block& block = slice->block(block_);
    FillPart(
        *slice, block_, part_,
        part_ == 0 ? block.mutable_values() : block.mutable_slot(part_ - 1));
    filled += block.elements();
    if (++block_ < slice->block_count()) continue;
    block_ = 0;
    if (++part_ < parts) continue;
    part_ = 0;
    ++slice_;
  }
  return slice_ == content_->owned().size();
}

void ShardFiller::BeginSlice(Slice* slice) {
  uint64_t life = 0;
  while (life == 0) life = lives_->Bits();
  slice->CreateBlocks(content_->optimizer().slots().size(), life);
  if (restoring_) RestoreCounts(result_.slices(slice_), slice);
}

void ShardFiller::RestoreCounts(const v1::ReadSlicesResult::Got& got,
                                Slice* slice) {
  for (int b = 0; b < slice->block_count(); ++b) {
    // Of the saved block in which this one begins: all of it where the slices
    // are those that were saved.
    const uint64_t first = slice->first_element() + kBlockElements * b;
    const uint64_t row = first / slice->row_elements();
    for (const auto& piece : got.pieces()) {
      if (row < piece.row_begin() || row >= piece.row_end()) continue;
      const uint64_t saved_first =
          piece.saved().row_begin() * slice->row_elements();
      const uint64_t saved_block = (first - saved_first) / kBlockElements;
      slice->block(b).set_applied(AppliedTo(piece.saved(), saved_block));
      slice->block(b).gradient_rms().Restore(
          GradientRmsOf(piece.saved(), saved_block));
    }
  }
  for (const auto& piece : got.pieces()) {
    const bool same_blocks = piece.saved().row_begin() == slice->rows().begin &&
                             piece.saved().row_end() == slice->rows().end;
    for (const v1::PushRecord& record : piece.saved().records()) {
      take_records_ ? slice->applied().Restore(record, same_blocks)
                    : slice->applied().RestoreCount(record);
    }
    if (!same_blocks) continue;
    for (const v1::PushRecord& record : piece.saved().partial()) {
      slice->applied().RestorePartial(record);
    }
  }
}

void ShardFiller::FillPart(const Slice& slice, int block, size_t part,
                           absl::Span<float> out) {
  const bool found = part == 0 && !found_.empty() && found_[slice_];
  if (restoring_ || found) {
    CHECK(reader_.Read(AsWritableBytes(out)),
          "the payload's size was checked against the slices");
  } else if (part == 0) {
    FillInitial(slice, slice.first_element() + kBlockElements * block, out);
  } else {
    std::fill(out.begin(), out.end(), content_->optimizer().initial_slot());
  }
}

void ShardFiller::FillInitial(const Slice& slice, uint64_t first,
                              absl::Span<float> out) {
  const v1::Initializer& init = slice.variable().initializer();
  if (init.kind() == v1::Initializer::ZEROS) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  const CounterRandom random(StableHash(slice.variable().name(), seed_));
  const float low = init.low();
  const float width = init.high() - init.low();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = low + width * random.Uniform(first + i);
  }
}

}  // namespace paramd
