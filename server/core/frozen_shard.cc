#include "server/core/frozen_shard.h"

#include <string>

namespace paramd {
namespace {

void AddTensor(const Slice& slice, const std::string& name,
               v1::WriteShard* head) {
  v1::WriteShard::Tensor* const tensor = head->add_tensors();
  tensor->set_name(name);
  tensor->set_dtype(v1::FLOAT32);
  for (const uint64_t dimension : slice.TensorShape()) {
    tensor->add_shape(dimension);
  }
  tensor->set_bytes(slice.elements() * sizeof(float));
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

void AddSlice(const SnapshotFork& fork, const Slice& slice,
              absl::Span<const absl::string_view> slots, FrozenShard* frozen) {
  v1::SavedSlice* const saved = frozen->head->mutable_file()->add_slices();
  saved->set_variable(slice.variable().name());
  saved->set_row_begin(slice.rows().begin);
  saved->set_row_end(slice.rows().end);
  saved->set_values_tensor(slice.TensorName());
  AddAppliedRuns(fork, slice, saved);
  AddGradientRms(fork, slice, saved);
  fork.record(slice).Save(saved);

  AddTensor(slice, saved->values_tensor(), frozen->head.get());
  for (int b = 0; b < slice.block_count(); ++b) {
    frozen->payload.push_back(fork.block(slice, b).values());
  }
  for (size_t s = 0; s < slots.size(); ++s) {
    const std::string name = slice.TensorName(slots[s]);
    (*saved->mutable_slot_tensors())[std::string(slots[s])] = name;
    AddTensor(slice, name, frozen->head.get());
    for (int b = 0; b < slice.block_count(); ++b) {
      const Block& block = fork.block(slice, b);
      const size_t bytes = block.elements() * sizeof(float);
      frozen->payload.push_back(block.slots().Part(s * bytes, bytes));
    }
  }
}

}  // namespace

FrozenShard Freeze(const ShardContent& content, const std::string& directory,
                   const v1::ShardFile& file) {
  FrozenShard frozen;
  frozen.head = std::make_unique<v1::WriteShard>();
  frozen.head->set_directory(directory);
  *frozen.head->mutable_file() = file;
  for (const Slice* const slice : content.owned()) {
    AddSlice(content.fork(), *slice, content.optimizer().slots(), &frozen);
  }
  return frozen;
}

}  // namespace paramd
