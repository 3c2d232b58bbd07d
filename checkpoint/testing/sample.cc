#include "checkpoint/testing/sample.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/verify.h"
#include "config/optimizer_slots.h"
#include "proto/refusal.h"

namespace paramd::testing {
namespace {

RowShape ShapeOf(const v1::Variable& variable) {
  return *ToRowShape(
      {variable.shape().data(), static_cast<size_t>(variable.shape().size())});
}

const v1::Variable& VariableOf(const v1::Manifest& manifest,
                               const v1::SavedSlice& slice) {
  return *std::find_if(manifest.variables().begin(), manifest.variables().end(),
                       [&](const v1::Variable& variable) {
                         return variable.name() == slice.variable();
                       });
}

uint64_t ElementsOf(const v1::Variable& variable, const v1::SavedSlice& slice) {
  return (slice.row_end() - slice.row_begin()) * ShapeOf(variable).row_elements;
}

// `w`, `w[0:4]`, `w/slot:momentum`, `w/slot:momentum[0:4]`.
std::string TensorName(const SampleSlice& slice, const std::string& slot) {
  std::string name = slice.variable->name();
  if (!slot.empty()) absl::StrAppend(&name, "/slot:", slot);
  if (slice.rows != RowRange{0, ShapeOf(*slice.variable).rows}) {
    absl::StrAppend(&name, "[", slice.rows.begin, ":", slice.rows.end, "]");
  }
  return name;
}

// Pushes that each block of a keyed variable has; and how many of them a row
// has not been named in.
constexpr uint64_t kKeyedPushes = 20000;
constexpr uint64_t kUnused[] = {5, 50, 500, 5000, 15000};

// Row r has key 3r and is used, but for row 0.
Buffer SampleIntegers(const std::string& slot, RowRange rows) {
  std::vector<uint64_t> integers;
  for (uint64_t row = rows.begin; row < rows.end; ++row) {
    const uint64_t used = row == 0 ? 0 : kKeyedPushes - kUnused[row % 5];
    integers.push_back(slot == kKeySlot ? 3 * row : used);
  }
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(integers)));
}

// Of those rows of the slot, drawn under the name `drawn_as`.
Buffer SampleFloats(const v1::Variable& variable, const std::string& slot,
                    const std::string& drawn_as, RowRange rows) {
  const uint64_t row =
      SlotNamed(slot).by_row ? 1 : ShapeOf(variable).row_elements;
  const CounterRandom random(StableHash(variable.name(), StableHash(drawn_as)));
  Buffer bytes = Buffer::Allocate((rows.end - rows.begin) * row * 4);
  auto* const values = reinterpret_cast<float*>(bytes.mutable_bytes().data());
  for (uint64_t i = 0; i < (rows.end - rows.begin) * row; ++i) {
    values[i] = random.Uniform(rows.begin * row + i) - 0.5f;
  }
  return bytes;
}

// What those rows have in blocks that changed.
Buffer ChangedBytes(const v1::Variable& variable, const std::string& slot,
                    RowRange rows) {
  if (SlotNamed(slot).dtype == v1::INT64) {
    return SampleIntegers(slot, {rows.begin + 1, rows.end + 1});
  }
  return SampleFloats(variable, slot, slot + "+", rows);
}

}  // namespace

v1::Variable SampleVariable(const std::string& name,
                            std::vector<uint64_t> shape) {
  v1::Variable variable;
  variable.set_name(name);
  variable.set_dtype(v1::FLOAT32);
  variable.mutable_shape()->Assign(shape.begin(), shape.end());
  return variable;
}

std::vector<SampleSlice> CutForServers(
    const std::vector<v1::Variable>& variables, uint32_t servers,
    uint64_t slice_bytes) {
  std::vector<SampleSlice> slices;
  for (const v1::Variable& variable : variables) {
    const RowShape shape = ShapeOf(variable);
    const uint64_t step =
        std::max<uint64_t>(1, slice_bytes / (shape.row_elements * 4));
    for (uint64_t row = 0; row < shape.rows; row += step) {
      slices.push_back({&variable,
                        {row, std::min(row + step, shape.rows)},
                        static_cast<uint32_t>(slices.size() % servers)});
    }
  }
  return slices;
}

Buffer SampleBytes(const v1::Variable& variable, const std::string& slot,
                   RowRange rows) {
  if (SlotNamed(slot).dtype == v1::INT64) return SampleIntegers(slot, rows);
  return SampleFloats(variable, slot, slot, rows);
}

v1::WriteShard SampleWrite(const std::string& directory,
                           const std::vector<SampleSlice>& slices,
                           const std::vector<std::string>& slots,
                           uint32_t server, uint32_t servers,
                           BufferChain* payload) {
  v1::WriteShard write;
  write.set_directory(directory);
  write.mutable_file()->set_name(
      absl::StrFormat("ps-%05d-of-%05d.safetensors", server + 1, servers));
  write.mutable_file()->set_server(server);
  for (const SampleSlice& slice : slices) {
    if (slice.server != server) continue;
    const auto add = [&](const std::string& slot) {
      auto* const tensor = write.add_tensors();
      tensor->set_name(TensorName(slice, slot));
      tensor->set_dtype(SlotNamed(slot).dtype);
      *tensor->mutable_shape() = slice.variable->shape();
      if (SlotNamed(slot).by_row) tensor->mutable_shape()->Truncate(1);
      if (tensor->shape_size() > 0) {
        tensor->set_shape(0, slice.rows.end - slice.rows.begin);
      }
      payload->push_back(SampleBytes(*slice.variable, slot, slice.rows));
      tensor->set_bytes(payload->back().size());
      return tensor->name();
    };
    auto* const saved = write.mutable_file()->add_slices();
    saved->set_variable(slice.variable->name());
    saved->set_row_begin(slice.rows.begin);
    saved->set_row_end(slice.rows.end);
    saved->set_values_tensor(add(""));
    if (slice.variable->keyed()) {
      v1::AppliedRun* const applied = saved->add_applied();
      applied->set_blocks(static_cast<uint32_t>(
          CutOf(*slice.variable, ShapeOf(*slice.variable))
              .Count(ElementsOf(*slice.variable, *saved))));
      applied->set_applied(kKeyedPushes);
    }
    const google::protobuf::RepeatedPtrField<std::string> names(slots.begin(),
                                                                slots.end());
    for (const Slot& slot : SlotsOf(names, SlotOwnerOf(*slice.variable))) {
      const std::string name(slot.name);
      (*saved->mutable_slot_tensors())[name] = add(name);
    }
  }
  return write;
}

v1::Manifest SampleManifest(const std::vector<v1::Variable>& variables,
                            const std::vector<std::string>& slots,
                            uint64_t term, uint64_t counter, uint64_t step) {
  v1::Manifest manifest;
  manifest.set_job_name("sample");
  manifest.set_run_id("sample-1");
  *manifest.mutable_snapshot() = MakeNumber<v1::SnapshotNumber>(term, counter);
  manifest.set_global_step(step);
  for (const v1::Variable& variable : variables) {
    *manifest.add_variables() = variable;
  }
  for (const std::string& slot : slots) manifest.add_slots(slot);
  return manifest;
}

absl::StatusOr<std::string> CommitSample(
    const std::string& root, const std::vector<v1::Variable>& variables,
    const std::vector<std::string>& slots, uint64_t term, uint64_t counter,
    uint64_t step, uint32_t servers, uint64_t slice_bytes,
    const std::vector<v1::LostPushes>& lost, uint64_t alone) {
  CheckpointDirectory directory(root, /*nonce=*/1);
  v1::CommitCheckpoint commit;
  *commit.mutable_manifest() =
      SampleManifest(variables, slots, term, counter, step);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = MakeNumber<v1::SnapshotNumber>(term, counter);
  ASSIGN_OR_RETURN(const auto prepared, directory.Prepare(prepare));
  commit.set_directory(prepared.directory());
  const auto slices = CutForServers(variables, servers, slice_bytes);
  for (uint32_t server = 0; server < servers; ++server) {
    BufferChain payload;
    const v1::WriteShard write = SampleWrite(commit.directory(), slices, slots,
                                             server, servers, &payload);
    ASSIGN_OR_RETURN(const auto written, WriteShardFile(write, payload));
    v1::ShardFile* const file = commit.mutable_manifest()->add_files();
    *file = written.file();
    file->set_acknowledged_alone(alone);
    for (const v1::LostPushes& pushes : lost) {
      if (pushes.server() == server) *file->add_lost() = pushes;
    }
  }
  ASSIGN_OR_RETURN(const auto committed, directory.Commit(commit));
  return committed.path();
}

v1::WriteShard SampleIncrementWrite(const std::string& directory,
                                    const v1::Manifest& manifest,
                                    const v1::ShardFile& base,
                                    const BlockChanged& changed,
                                    BufferChain* payload) {
  v1::WriteShard write;
  v1::ShardFile* const file = write.mutable_file();
  file->set_name(base.name());
  file->set_server(base.server());
  *file->mutable_slices() = base.slices();
  v1::BaseFile* const from = file->mutable_base();
  *from->mutable_snapshot() = manifest.snapshot();
  from->set_directory(directory);
  from->set_name(base.name());
  from->set_bytes(base.bytes());
  from->set_crc32c(base.crc32c());
  for (v1::SavedSlice& slice : *file->mutable_slices()) {
    const v1::Variable& variable = VariableOf(manifest, slice);
    const uint64_t elements = ElementsOf(variable, slice);
    const RowShape shape = ShapeOf(variable);
    const BlockCut cut = CutOf(variable, shape);
    const uint64_t blocks = cut.Count(elements);
    for (uint64_t first = 0, end; first < blocks; first = end + 1) {
      end = first;
      while (end < blocks && changed(slice, end)) ++end;
      if (end == first) continue;
      v1::ChangedBlocks* const run = slice.add_changed();
      run->set_first_block(first);
      run->set_blocks(end - first);
      const ElementRange range = paramd::ElementsOf(*run, cut, elements);
      const auto add = [&](const std::string& tensor, const std::string& slot) {
        const Slot kind = SlotNamed(slot);
        const uint64_t begin = kind.words(range.begin, shape.row_elements) * 4;
        const uint64_t bytes =
            kind.words(range.end, shape.row_elements) * 4 - begin;
        auto* const added = write.add_tensors();
        added->set_name(absl::StrCat(tensor, "#", first));
        added->set_dtype(kind.dtype);
        added->add_shape(bytes / ElementBytes(kind.dtype));
        added->set_bytes(bytes);
        payload->push_back(
            ChangedBytes(variable, slot, {slice.row_begin(), slice.row_end()})
                .Part(begin, bytes));
        return added->name();
      };
      run->set_values_tensor(add(slice.values_tensor(), ""));
      for (const auto& [slot, tensor] : slice.slot_tensors()) {
        (*run->mutable_slot_tensors())[slot] = add(tensor, slot);
      }
    }
  }
  return write;
}

std::string SampleAfterIncrement(const v1::Variable& variable,
                                 const std::string& slot,
                                 const v1::SavedSlice& slice,
                                 const BlockChanged& changed) {
  const RowRange rows = {slice.row_begin(), slice.row_end()};
  std::string bytes = FlattenForTest({SampleBytes(variable, slot, rows)});
  const std::string after =
      FlattenForTest({ChangedBytes(variable, slot, rows)});
  const RowShape shape = ShapeOf(variable);
  const uint64_t block_bytes =
      4 * SlotNamed(slot).words(CutOf(variable, shape).elements(),
                                shape.row_elements);
  for (uint64_t block = 0; block * block_bytes < bytes.size(); ++block) {
    if (!changed(slice, block)) continue;
    bytes.replace(block * block_bytes, block_bytes,
                  after.substr(block * block_bytes, block_bytes));
  }
  return bytes;
}

absl::StatusOr<std::string> CommitIncrement(const std::string& base,
                                            const BlockChanged& changed) {
  ASSIGN_OR_RETURN(const v1::Manifest before, ReadManifest(base));
  CheckpointDirectory directory(DirectoryOf(base), /*nonce=*/1);
  v1::CommitCheckpoint commit;
  v1::Manifest* const manifest = commit.mutable_manifest();
  *manifest = before;
  manifest->clear_files();
  manifest->mutable_snapshot()->set_counter(before.snapshot().counter() + 1);
  manifest->set_global_step(before.global_step() + 10);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = manifest->snapshot();
  ASSIGN_OR_RETURN(const auto prepared, directory.Prepare(prepare));
  commit.set_directory(prepared.directory());
  for (const v1::ShardFile& file : before.files()) {
    BufferChain payload;
    v1::WriteShard write = SampleIncrementWrite(
        base.substr(base.rfind('/') + 1), before, file, changed, &payload);
    write.set_directory(commit.directory());
    ASSIGN_OR_RETURN(const auto written, WriteShardFile(write, payload));
    *manifest->add_files() = written.file();
  }
  ASSIGN_OR_RETURN(const auto committed, directory.Commit(commit));
  return committed.path();
}

}  // namespace paramd::testing
