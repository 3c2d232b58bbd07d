#include "server/core/shard_filler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/initial_values.h"
#include "config/optimizer_slots.h"
#include "server/core/slice_view.h"

namespace paramd {
namespace {

v1::ReadSlices::Want WantOf(const Slice& slice) {
  v1::ReadSlices::Want want;
  want.set_variable(slice.variable().name());
  *want.mutable_shape() = slice.variable().shape();
  want.set_row_begin(slice.rows().begin);
  want.set_row_end(slice.rows().end);
  want.set_values_only(!slice.options().trained);
  want.set_sparse(slice.sparse());
  want.set_keyed(slice.keyed());
  want.set_sketched(slice.options().sketched);
  return want;
}

// Names them where they don't follow from `names`, which some slice has each.
void NameOwnSlots(const Slice& slice,
                  const google::protobuf::RepeatedPtrField<std::string>& names,
                  v1::ReadSlices::Want* want) {
  const SlotOwner owner = SlotOwnerOf(slice.variable());
  if (FollowFrom(names, owner, slice.slots())) return;
  want->set_values_only(slice.slots().empty());
  for (const Slot& slot : slice.slots()) {
    want->add_own_slots(std::string(slot.name));
  }
}

// Has the system back memory of undefined content.
void TouchPages(absl::Span<std::byte> memory) {
  constexpr size_t kPageBytes = 4096;
  for (size_t at = 0; at < memory.size(); at += kPageBytes) {
    memory[at] = std::byte{0};
  }
}

bool AllAreFloats(const ShardContent& content) {
  return std::all_of(content.owned().begin(), content.owned().end(),
                     [](const Slice* slice) {
                       return slice->value_format() == NumberFormat::kFp32;
                     });
}

// Of block `block` of a saved slice; 0 if it is not kept.
float GradientRmsOf(const v1::SavedSlice& saved, uint64_t block) {
  return block < static_cast<uint64_t>(saved.gradient_rms_size())
             ? saved.gradient_rms(static_cast<int>(block))
             : 0;
}

}  // namespace

ShardFiller::ShardFiller(const Options& options)
    : options_(options),
      in_place_(false),
      source_(Source::kInitial),
      asked_all_(true) {}

ShardFiller::ShardFiller(const Options& options,
                         const v1::WarmStartConfig& warm_start)
    : options_(options),
      in_place_(false),
      source_(Source::kWarmStart),
      warm_start_(warm_start),
      asked_all_(options.content->owned().empty()),
      window_end_(EndOfWindow(0)) {}

ShardFiller::ShardFiller(const Options& options, const Checkpoint& checkpoint)
    : options_(options),
      in_place_(options.in_place && AllAreFloats(*options.content)),
      source_(Source::kCheckpoint),
      checkpoint_(checkpoint),
      window_end_(EndOfWindow(0)) {}

uint64_t ShardFiller::BytesOf(size_t slice) const {
  const Slice& owned = *options_.content->owned()[slice];
  return owned.read_bytes();
}

size_t ShardFiller::EndOfWindow(size_t first) const {
  size_t end = first;
  uint64_t bytes = 0;
  while (end < slices() &&
         (end == first || bytes + BytesOf(end) <= options_.window_bytes)) {
    bytes += BytesOf(end++);
  }
  return end;
}

ShardFiller::Read ShardFiller::NextRead(IoId io) {
  Read read;
  if (asked_all_ || full() || CanPrepare()) return read;
  const size_t first = asked_;
  asked_ = window_end_;
  window_end_ = EndOfWindow(asked_);
  asked_all_ = asked_ == slices();
  Window& window = windows_.emplace_back();
  window.io = io;
  window.first = first;
  window.end = asked_;
  read.memory = std::exchange(prepared_, {});
  for (const Buffer& buffer : read.memory) {
    window.asked_into.push_back(buffer.bytes().data());
  }
  const auto add_wants = [&](auto* wanted) {
    for (size_t s = first; s < asked_; ++s) {
      *wanted->add_slices() = WantOf(*options_.content->owned()[s]);
    }
  };
  if (source_ == Source::kWarmStart) {
    auto wanted = std::make_unique<v1::ReadWarmStart>();
    *wanted->mutable_warm_start() = warm_start_;
    add_wants(wanted.get());
    read.head = std::move(wanted);
    return read;
  }
  auto wanted = std::make_unique<v1::ReadSlices>();
  wanted->set_path(checkpoint_.directory);
  *wanted->mutable_check() = checkpoint_.check;
  wanted->set_first(first == 0);
  wanted->set_last(asked_all_);
  for (const Slot& slot : options_.content->all_slots()) {
    wanted->add_slots(std::string(slot.name));
  }
  add_wants(wanted.get());
  for (size_t s = first; s < asked_; ++s) {
    NameOwnSlots(*options_.content->owned()[s], wanted->slots(),
                 wanted->mutable_slices(static_cast<int>(s - first)));
  }
  read.head = std::move(wanted);
  return read;
}

bool ShardFiller::Wants(IoId io) const {
  return std::any_of(
      windows_.begin(), windows_.end(),
      [io](const Window& window) { return window.io == io && !window.there; });
}

absl::Status ShardFiller::Take(const IoResult& result) {
  Window& window =
      *std::find_if(windows_.begin(), windows_.end(),
                    [&](const Window& w) { return w.io == result.io; });
  const uint64_t bytes = ChainSize(result.payload);
  if (const auto* slices =
          dynamic_cast<const v1::ReadSlicesResult*>(result.head.get())) {
    RETURN_IF_ERROR(TakeSlices(*slices, bytes, &window));
    take_records_ = slices->manifest().run_id() == checkpoint_.run_id;
  } else if (const auto* found = dynamic_cast<const v1::ReadWarmStartResult*>(
                 result.head.get())) {
    RETURN_IF_ERROR(TakeFound(*found, bytes, &window));
  } else {
    return absl::InternalError("reading gave no result");
  }
  window.payload = result.payload;
  window.in_place =
      !window.asked_into.empty() &&
      std::equal(window.payload.begin(), window.payload.end(),
                 window.asked_into.begin(), window.asked_into.end(),
                 [](const Buffer& buffer, const std::byte* begin) {
                   return buffer.bytes().data() == begin;
                 });
  if (!window.in_place) window.reader.emplace(window.payload);
  window.there = true;
  DropFilledWindow();
  return absl::OkStatus();
}

absl::Status ShardFiller::TakeSlices(const v1::ReadSlicesResult& read,
                                     uint64_t payload, Window* window) const {
  const size_t wanted = window->end - window->first;
  if (static_cast<size_t>(read.slices_size()) != wanted) {
    return absl::DataLossError(absl::StrCat("checkpoint gave ",
                                            read.slices_size(), " slices; ",
                                            wanted, " were asked for"));
  }
  uint64_t bytes = 0;
  for (size_t s = window->first; s < window->end; ++s) bytes += BytesOf(s);
  if (payload != bytes) {
    return absl::DataLossError(
        absl::StrCat("checkpoint gave ", payload,
                     " bytes; the slices asked for have ", bytes));
  }
  window->read = read;
  return absl::OkStatus();
}

absl::Status ShardFiller::TakeFound(const v1::ReadWarmStartResult& read,
                                    uint64_t payload, Window* window) const {
  const size_t wanted = window->end - window->first;
  if (static_cast<size_t>(read.found_size()) != wanted) {
    return absl::DataLossError(absl::StrCat("a warm start gave ",
                                            read.found_size(), " slices; ",
                                            wanted, " were asked for"));
  }
  uint64_t bytes = 0;
  for (size_t s = 0; s < wanted; ++s) {
    if (!read.found(static_cast<int>(s))) continue;
    bytes += options_.content->owned()[window->first + s]->initial_bytes();
  }
  if (payload != bytes) {
    return absl::DataLossError(
        absl::StrCat("a warm start gave ", payload,
                     " bytes; the slices that it found have ", bytes));
  }
  window->found.assign(read.found().begin(), read.found().end());
  return absl::OkStatus();
}

bool ShardFiller::CanStep() const { return CanFill() || CanPrepare(); }

bool ShardFiller::CanPrepare() const {
  return in_place_ && source_ == Source::kCheckpoint && !asked_all_ &&
         !full() && prepare_slice_ < window_end_;
}

void ShardFiller::PrepareBlock() {
  const Slice& slice = *options_.content->owned()[prepare_slice_];
  BlockMemory memory = slice.MakeMemory(prepare_block_);
  for (Buffer* const buffer : {&memory.values, &memory.slots}) {
    if (buffer->empty()) continue;
    TouchPages(buffer->mutable_bytes());
    prepared_.push_back(std::move(*buffer));
  }
  if (++prepare_block_ < slice.block_count()) return;
  prepare_block_ = 0;
  ++prepare_slice_;
}

bool ShardFiller::CanFill() const {
  if (slice_ == slices()) return false;
  return source_ == Source::kInitial ||
         (!windows_.empty() && windows_.front().there);
}

bool ShardFiller::done() const {
  return slice_ == slices() && asked_all_ && windows_.empty();
}

void ShardFiller::Step() { CanFill() ? Fill() : PrepareBlock(); }

void ShardFiller::Fill() {
  size_t filled = 0;
  while (CanFill() && filled < kMaxBlockElements) {
    Slice* const slice = options_.content->owned()[slice_];
    if (!windows_.empty() && windows_.front().in_place) {
      AdoptSlice(slice);
      filled += slice->elements();
      continue;
    }
    if (part_ == 0 && block_ == 0) BeginSlice(slice);
    FillPart(slice, block_, part_);
    const size_t bytes = slice->MutablePart(block_, part_).size();
    filled += bytes / sizeof(float);
    filled_bytes_ += bytes;
    if (++block_ < slice->block_count()) continue;
    block_ = 0;
    if (++part_ < slice->part_count()) continue;
    if (IsFound()) slice->BeginTrained(options_.content->optimizer());
    part_ = 0;
    ++slice_;
    DropFilledWindow();
  }
}

void ShardFiller::DropFilledWindow() {
  if (!windows_.empty() && windows_.front().there &&
      windows_.front().end == slice_) {
    windows_.pop_front();
  }
}

uint64_t ShardFiller::NextLife() {
  uint64_t life = 0;
  while (life == 0) life = options_.lives->Bits();
  return life;
}

void ShardFiller::AdoptSlice(Slice* slice) {
  Window& window = windows_.front();
  std::vector<BlockMemory> memory(slice->block_count());
  for (BlockMemory& block : memory) {
    block.values = std::move(window.payload[window.adopted++]);
    if (slice->slots().empty()) continue;
    block.slots = std::move(window.payload[window.adopted++]);
  }
  slice->CreateBlocks(NextLife(), std::move(memory));
  RestoreCounts(window.read.slices(static_cast<int>(slice_ - window.first)),
                slice);
  filled_bytes_ += BytesOf(slice_);
  ++slice_;
  DropFilledWindow();
}

void ShardFiller::BeginSlice(Slice* slice) {
  slice->CreateBlocks(NextLife());
  if (source_ != Source::kCheckpoint) return;
  const Window& window = windows_.front();
  RestoreCounts(window.read.slices(static_cast<int>(slice_ - window.first)),
                slice);
}

void ShardFiller::RestoreCounts(const v1::ReadSlicesResult::Got& got,
                                Slice* slice) {
  for (int b = 0; b < slice->block_count(); ++b) {
    // Of the saved block in which this one begins: all of it where the slices
    // are those that were saved.
    const uint64_t first = slice->block_begin(b);
    const uint64_t row = first / slice->row_elements();
    for (const auto& piece : got.pieces()) {
      if (row < piece.row_begin() || row >= piece.row_end()) continue;
      const uint64_t saved_first =
          piece.saved().row_begin() * slice->row_elements();
      const uint64_t saved_block = slice->cut().BlockOf(first - saved_first);
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

// What lies on the disk begins so: to touch it would be to read and to write
// it.
void ShardFiller::FillWithZeros(const Slice& slice, int block, size_t part,
                                absl::Span<std::byte> out) {
  const DiskRanges& on_disk =
      part == 0 ? slice.placement().values : slice.placement().slots;
  const size_t begin =
      part == 0 ? 0 : slice.PlaceOfSlot(block, part - 1).begin * sizeof(float);
  const size_t end = begin + out.size();
  const auto clear = [&](size_t from, size_t to) {
    std::fill(out.begin() + (from - begin), out.begin() + (to - begin),
              std::byte{0});
  };
  size_t place = begin;
  for (const DiskRange& range : on_disk) {
    if (range.end <= place) continue;
    if (range.begin >= end) break;
    if (range.begin > place) clear(place, range.begin);
    place = range.end;
  }
  if (place < end) clear(place, end);
}

bool ShardFiller::IsFound() const {
  return source_ == Source::kWarmStart &&
         windows_.front().found[slice_ - windows_.front().first];
}

// With trained values come keys and uses.
bool ShardFiller::IsRead(const Slice& slice, size_t part) const {
  return source_ == Source::kCheckpoint ||
         (IsFound() && part <= (slice.keyed() ? 2 : 0));
}

// Rows of a keyed variable begin when they get a key.
void ShardFiller::FillPart(Slice* slice, int block, size_t part) {
  const absl::Span<std::byte> out = slice->MutablePart(block, part);
  const auto floats = absl::MakeSpan(reinterpret_cast<float*>(out.data()),
                                     out.size() / sizeof(float));
  if (IsRead(*slice, part)) {
    const bool narrow =
        part == 0 && slice->value_format() != NumberFormat::kFp32;
    std::vector<float> wide(narrow ? slice->block_elements(block) : 0);
    CHECK(windows_.front().reader->Read(
              narrow ? AsWritableBytes(absl::MakeSpan(wide)) : out),
          "the payload's size was checked against the slices");
    if (narrow) slice->block(block).SetValues(wide);
  } else if (slice->keyed()) {
    FillWithZeros(*slice, block, part, out);
  } else if (part == 0) {
    InitialValues(slice->variable(), options_.seed)
        .Fill(slice->block_begin(block), floats);
  } else {
    std::fill(
        floats.begin(), floats.end(),
        options_.content->optimizer().initial_slot(part - 1, slice->options()));
  }
}

}  // namespace paramd
