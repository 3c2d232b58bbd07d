#include "server/core/frozen_shard.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

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

v1::DType DTypeOf(const Slice& slice) {
  return slice.value_format() == NumberFormat::kBf16 ? v1::BFLOAT16
                                                     : v1::FLOAT32;
}

void AddValues(const SnapshotFork& fork, const Slice& slice, const Run& run,
               FrozenShard* frozen) {
  for (int b = run.begin; b < run.end; ++b) {
    frozen->payload.push_back(fork.block(slice, b).values());
  }
}

void AddSlot(const SnapshotFork& fork, const Slice& slice, const Run& run,
             size_t slot, FrozenShard* frozen) {
  for (int b = run.begin; b < run.end; ++b) {
    const Slice::SlotPlace place = slice.PlaceOfSlot(b, slot);
    frozen->payload.push_back(fork.block(slice, b).slots().Part(
        place.begin * sizeof(float), place.words * sizeof(float)));
  }
}

void AddAppliedRuns(const SnapshotFork& fork, const Slice& slice,
                    v1::SavedSlice* saved) {
  v1::AppliedRun* run = nullptr;
  for (int b = 0; b < slice.block_count(); ++b) {
    const uint64_t applied = fork.block(slice, b).applied();
    if (run == nullptr || run->applied() != applied) {
      run = saved->add_applied();
      run->set_applied(applied);
    }
    run->set_blocks(run->blocks() + 1);
  }
}

// Nothing, if none is kept.
void AddGradientRms(const SnapshotFork& fork, const Slice& slice,
                    v1::SavedSlice* saved) {
  bool any = false;
  for (int b = 0; b < slice.block_count(); ++b) {
    const float rms = fork.block(slice, b).gradient_rms().saved();
    any = any || rms > 0;
    saved->add_gradient_rms(rms);
  }
  if (!any) saved->clear_gradient_rms();
}

v1::SavedSlice* AddSlice(const SnapshotFork& fork, const Slice& slice,
                         FrozenShard* frozen) {
  v1::SavedSlice* const saved = frozen->head->mutable_file()->add_slices();
  saved->set_variable(slice.variable().name());
  saved->set_row_begin(slice.rows().begin);
  saved->set_row_end(slice.rows().end);
  saved->set_values_tensor(slice.TensorName());
  for (const Slot& slot : slice.slots()) {
    (*saved->mutable_slot_tensors())[std::string(slot.name)] =
        slice.TensorName(slot.name);
  }
  AddAppliedRuns(fork, slice, saved);
  AddGradientRms(fork, slice, saved);
  fork.record(slice).Save(saved);
  return saved;
}

void AddWhole(const SnapshotFork& fork, const Slice& slice,
              FrozenShard* frozen) {
  AddSlice(fork, slice, frozen);
  const Run all = {0, slice.block_count()};
  const std::vector<uint64_t> shape = slice.TensorShape();
  AddTensor(slice.TensorName(), shape, DTypeOf(slice), frozen->head.get());
  AddValues(fork, slice, all, frozen);
  for (size_t s = 0; s < slice.slots().size(); ++s) {
    const Slot& slot = slice.slots()[s];
    absl::Span<const uint64_t> dimensions = shape;
    if (slot.by_row) dimensions = dimensions.first(1);
    AddTensor(slice.TensorName(slot.name), dimensions, slot.dtype,
              frozen->head.get());
    AddSlot(fork, slice, all, s, frozen);
  }
}

// "w[0:512]/blocks:2:3".
std::string RunName(const Slice& slice, absl::string_view slot,
                    const Run& run) {
  return absl::StrCat(slice.TensorName(slot), "/blocks:", run.begin, ":",
                      run.end);
}

void AddRun(const SnapshotFork& fork, const Slice& slice, const Run& run,
            v1::SavedSlice* saved, FrozenShard* frozen) {
  v1::ChangedBlocks* const changed = saved->add_changed();
  changed->set_first_block(run.begin);
  changed->set_blocks(run.end - run.begin);
  uint64_t elements = 0;
  for (int b = run.begin; b < run.end; ++b) elements += slice.block_elements(b);
  changed->set_values_tensor(RunName(slice, "", run));
  AddTensor(changed->values_tensor(), {elements}, DTypeOf(slice),
            frozen->head.get());
  AddValues(fork, slice, run, frozen);
  for (size_t s = 0; s < slice.slots().size(); ++s) {
    const Slot& slot = slice.slots()[s];
    const std::string name = RunName(slice, slot.name, run);
    (*changed->mutable_slot_tensors())[std::string(slot.name)] = name;
    AddTensor(name, {slot.by_row ? elements / slice.row_elements() : elements},
              slot.dtype, frozen->head.get());
    AddSlot(fork, slice, run, s, frozen);
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
      v1::SavedSlice* const saved = AddSlice(fork, *slice, &frozen);
      for (const Run& run : ChangedRuns(*content, *slice)) {
        AddRun(fork, *slice, run, saved, &frozen);
      }
    }
    return frozen;
  }
  for (const Slice* const slice : content->owned()) {
    AddWhole(fork, *slice, &frozen);
  }
  content->whole_files().Add(request.header().snapshot(), fork,
                             content->owned());
  return frozen;
}

}  // namespace paramd
