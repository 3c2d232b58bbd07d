#include "client/core/weights.h"

#include <algorithm>
#include <cstring>

#include "tensor/packed_numbers.h"
#include "tensor/stream_copy.h"

namespace paramd {

namespace {

// What it has is of no use before it is pulled, and may still be read.
Buffer OfLender(float* values, size_t bytes) {
  return Buffer::Writable(
      {reinterpret_cast<std::byte*>(values), bytes}, [](void* /*context*/) {},
      nullptr);
}

}  // namespace

Weights::Weights(const Placement& placement)
    : Weights(placement, /*with_sparse=*/true, {}, 0) {}

Weights Weights::WithoutSparse(const Placement& placement,
                               const WeightMemory& memory, size_t which) {
  return Weights(placement, /*with_sparse=*/false, memory, which);
}

Weights::Weights(const Placement& placement, bool with_sparse,
                 const WeightMemory& memory, size_t which)
    : device_(memory.device),
      pinned_(memory.pinned),
      lent_(placement.elements().size()) {
  const LentWeights& lent = memory.lent;
  for (size_t v = 0; v < placement.elements().size(); ++v) {
    const uint64_t elements = placement.elements()[v];
    const bool is_sparse = std::binary_search(placement.sparse().begin(),
                                              placement.sparse().end(), v);
    if (is_sparse && !with_sparse) {
      values_.emplace_back();
      continue;
    }
    if (v < lent.size() && lent[v][which] != nullptr) {
      lent_[v] = true;
      values_.push_back(OfLender(lent[v][which], elements * sizeof(float)));
      continue;
    }
    values_.push_back(Allocate(elements * sizeof(float)));
  }
  for (const PlacedSlice& slice : placement.slices()) {
    versions_.emplace_back(slice.blocks);
  }
}

Buffer Weights::Allocate(size_t bytes) const {
  Buffer memory;
  if (device_ != nullptr) memory = device_->Allocate(bytes);
  if (memory.empty() && pinned_ != nullptr) memory = pinned_(bytes);
  if (memory.empty()) memory = Buffer::Allocate(bytes);
  std::memset(memory.mutable_bytes().data(), 0, bytes);
  return memory;
}

absl::Span<const float> Weights::variable(size_t v) const {
  const absl::Span<const std::byte> bytes = values_[v].bytes();
  return {reinterpret_cast<const float*>(bytes.data()),
          bytes.size() / sizeof(float)};
}

std::vector<absl::Span<const float>> Weights::variables() const {
  std::vector<absl::Span<const float>> all;
  for (size_t v = 0; v < values_.size(); ++v) all.push_back(variable(v));
  return all;
}

float* Weights::BlockOf(const PlacedSlice& slice, uint32_t block) {
  return reinterpret_cast<float*>(
             values_[slice.variable].mutable_bytes().data()) +
         slice.block_begin(block);
}

void Weights::Set(const PlacedSlice& slice, uint32_t slice_id, uint32_t block,
                  const v1::BlockVersion& version, const NumberReader& values) {
  const Buffer& variable = values_[slice.variable];
  float* const out = BlockOf(slice, block);
  const size_t elements = slice.block_elements(block);
  const bool is_on_device =
      device_ != nullptr && device_->Has(variable.bytes());
  if ((is_on_device || variable.size() >= kLeastStreamedBytes) &&
      values.format() == NumberFormat::kFp32) {
    values.ForEachRun(
        elements, [&](const std::byte* bytes, size_t offset, size_t count) {
          const absl::Span<const std::byte> run(bytes, count * sizeof(float));
          auto* const to = reinterpret_cast<std::byte*>(out + offset);
          if (is_on_device && device_->Has(run)) return device_->Copy(run, to);
          StreamCopy(to, bytes, run.size());
        });
  } else {
    values.ReadTo(out, elements);
  }
  versions_[slice_id][block] = version;
}

void Weights::SetPacked(const PlacedSlice& slice, const v1::PulledBlock& block,
                        NumberFormat format, ChainReader* packed) {
  const bool streams = values_[slice.variable].size() >= kLeastStreamedBytes;
  float* const out = BlockOf(slice, block.block());
  Bitmap(packed, block.elements())
      .ForEachRun(
          packed, format, [&](const float* run, size_t offset, size_t length) {
            const size_t bytes = length * sizeof(float);
            if (!streams) {
              std::memcpy(out + offset, run, bytes);
            } else {
              StreamCopy(reinterpret_cast<std::byte*>(out + offset),
                         reinterpret_cast<const std::byte*>(run), bytes);
            }
          });
  versions_[block.slice()][block.block()] = block.version();
}

std::vector<absl::Span<const float>> ValuesOf(const BufferChain& buffers) {
  std::vector<absl::Span<const float>> all;
  for (const Buffer& buffer : buffers) {
    const absl::Span<const std::byte> bytes = buffer.bytes();
    all.emplace_back(reinterpret_cast<const float*>(bytes.data()),
                     bytes.size() / sizeof(float));
  }
  return all;
}

}  // namespace paramd
