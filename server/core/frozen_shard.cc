#include "server/core/frozen_shard.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/core/slice_view.h"

namespace paramd {
namespace {

// Consecutive blocks of a slice.
struct Run {
  int begin;
  int end;
};

void AddTensor(const std::string& name, absl::Span<const uint64_t> shape,
               v1::DType dtype, v1::WriteShard* head) {
  v1::WriteShard::Tensor* const tensor = head->add_tensors();
  tensor->set_name(name);
  tensor->set_dtype(dtype);
  uint64_t bytes = dtype == v1::INT64      ? sizeof(int64_t)
                   : dtype == v1::BFLOAT16 ? sizeof(uint16_t)
                                           : sizeof(float);
  for (const uint64_t dimension : shape) {
    tensor->add_shape(dimension);
    bytes *= dimension;
  }
  tensor->set_bytes(bytes);
}

// Of the values, and of each slot.
v1::DType DTypeOf(const Slice& slice, size_t part) {
  if (part > 0) return slice.slots()[part - 1].dtype;
  return slice.value_format() == NumberFormat::kBf16 ? v1::BFLOAT16
                                                     : v1::FLOAT32;
}

// Nothing for values.
absl::string_view SlotName(const Slice& slice, size_t part) {
  return part == 0 ? "" : slice.slots()[part - 1].name;
}

bool IsByRow(const Slice& slice, size_t part) {
  return part > 0 && slice.slots()[part - 1].by_row;
}

// Nothing, if none is kept.
void AddGradientRms(const SliceView& view, v1::SavedSlice* saved) {
  bool any = false;
  for (int b = 0; b < view.slice.block_count(); ++b) {
    const float rms = view.block(b).gradient_rms().saved();
    any = any || rms > 0;
    saved->add_gradient_rms(rms);
  }
  if (!any) saved->clear_gradient_rms();
}

v1::SavedSlice* AddSlice(const SliceView& view, FrozenShard* frozen) {
  const Slice& slice = view.slice;
  v1::SavedSlice* const saved = frozen->head->mutable_file()->add_slices();
  saved->set_values_tensor(slice.TensorName());
  for (const Slot& slot : slice.slots()) {
    (*saved->mutable_slot_tensors())[std::string(slot.name)] =
        slice.TensorName(slot.name);
  }
  view.Save(saved);
  AddGradientRms(view, saved);
  return saved;
}

void AddWhole(const SliceView& view, FrozenShard* frozen) {
  const Slice& slice = view.slice;
  AddSlice(view, frozen);
  const std::vector<uint64_t> shape = slice.TensorShape();
  for (size_t part = 0; part < slice.part_count(); ++part) {
    absl::Span<const uint64_t> dimensions = shape;
    if (IsByRow(slice, part)) dimensions = dimensions.first(1);
    AddTensor(slice.TensorName(SlotName(slice, part)), dimensions,
              DTypeOf(slice, part), frozen->head.get());
    view.AddPart(part, 0, slice.block_count(), &frozen->payload);
  }
}

void AddRun(const SliceView& view, const Run& run, v1::SavedSlice* saved,
            FrozenShard* frozen) {
  const Slice& slice = view.slice;
  v1::ChangedBlocks* const changed = saved->add_changed();
  changed->set_first_block(run.begin);
  changed->set_blocks(run.end - run.begin);
  uint64_t elements = 0;
  for (int b = run.begin; b < run.end; ++b) elements += slice.block_elements(b);
  for (size_t part = 0; part < slice.part_count(); ++part) {
    const absl::string_view slot = SlotName(slice, part);
    // "w[0:512]/blocks:2:3".
    const std::string name = absl::StrCat(slice.TensorName(slot),
                                          "/blocks:", run.begin, ":", run.end);
    if (part == 0) {
      changed->set_values_tensor(name);
    } else {
      (*changed->mutable_slot_tensors())[std::string(slot)] = name;
    }
    AddTensor(
        name,
        {IsByRow(slice, part) ? elements / slice.row_elements() : elements},
        DTypeOf(slice, part), frozen->head.get());
    view.AddPart(part, run.begin, run.end, &frozen->payload);
  }
}

// The blocks of the slice that the base has not.
std::vector<Run> ChangedRuns(const ShardContent& content, const Slice& slice) {
  std::vector<Run> runs;
  for (int b = 0; b < slice.block_count(); ++b) {
    if (content.whole_files().IsUnchanged(slice, b,
                                          content.fork().block(slice, b))) {
      continue;
    }
    if (runs.empty() || runs.back().end != b) runs.push_back({b, b});
    runs.back().end = b + 1;
  }
  return runs;
}

// At most half of the numbers: with more, a file that refers to no other is
// worth its bytes.
bool FewChanged(const ShardContent& content) {
  uint64_t changed = 0;
  uint64_t all = 0;
  for (const Slice* const slice : content.owned()) {
    all += slice->elements();
    for (const Run& run : ChangedRuns(content, *slice)) {
      for (int b = run.begin; b < run.end; ++b) {
        changed += slice->block_elements(b);
      }
    }
  }
  return changed <= all / 2;
}

}  // namespace

FrozenShard Freeze(const v1::SealRequest& request, const v1::ShardFile& file,
                   ShardContent* content) {
  FrozenShard frozen;
  frozen.head = std::make_unique<v1::WriteShard>();
  frozen.head->set_directory(request.directory());
  frozen.head->set_nonce(request.nonce());
  *frozen.head->mutable_file() = file;
  const SnapshotFork& fork = content->fork();
  if (content->whole_files().Use(request.base()) && FewChanged(*content)) {
    *frozen.head->mutable_file()->mutable_base()->mutable_snapshot() =
        request.base();
    for (const Slice* const slice : content->owned()) {
      const SliceView view = {*slice, &fork};
      v1::SavedSlice* const saved = AddSlice(view, &frozen);
      for (const Run& run : ChangedRuns(*content, *slice)) {
        AddRun(view, run, saved, &frozen);
      }
    }
    return frozen;
  }
  for (const Slice* const slice : content->owned()) {
    AddWhole({*slice, &fork}, &frozen);
  }
  content->whole_files().Add(request.header().snapshot(), fork,
                             content->owned());
  return frozen;
}

}  // namespace paramd
