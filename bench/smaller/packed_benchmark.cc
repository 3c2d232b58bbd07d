// What it costs to pack the weights that are left of a pruned block, and to
// unpack them, beside a copy of the block.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "tensor/buffer.h"
#include "tensor/packed_numbers.h"

namespace paramd {
namespace {

// 64 MiB: as much as does not fit the caches.
constexpr size_t kBlocks = 64;
constexpr size_t kElements = 262144;

// Of one block, on average.
template <typename Work>
double Microseconds(const Work& work) {
  const Time begin = MonotonicNow();
  for (size_t block = 0; block < kBlocks; ++block) work(block);
  return absl::ToDoubleMicroseconds(MonotonicNow() - begin) / kBlocks;
}

struct Blocks {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<float>> pulled;
  std::vector<BufferChain> packed;
};

Blocks MakeBlocks(double zeros) {
  RandomStream random(1);
  Blocks blocks;
  for (size_t block = 0; block < kBlocks; ++block) {
    std::vector<float>& weights = blocks.weights.emplace_back(kElements);
    for (float& weight : weights) {
      if (!random.Chance(zeros)) weight = 0.25f;
    }
    blocks.pulled.emplace_back(kElements);
    blocks.packed.emplace_back();
  }
  return blocks;
}

// As a server does with each version of a block that is pulled.
void Pack(NumberFormat format, size_t block, Blocks* blocks) {
  const std::vector<float>& weights = blocks->weights[block];
  Buffer packed = Buffer::Allocate(
      PackedBytes(format, kElements, CountNonzero(weights.data(), kElements)));
  PackNumbers(format, weights.data(), kElements, packed.mutable_bytes().data());
  blocks->packed[block] = {std::move(packed)};
}

// As a worker does with what it gets.
void Unpack(NumberFormat format, size_t block, Blocks* blocks) {
  ChainReader reader(blocks->packed[block]);
  float* const out = blocks->pulled[block].data();
  Bitmap(&reader, kElements)
      .ForEachRun(&reader, format,
                  [&](const float* run, size_t offset, size_t length) {
                    std::memcpy(out + offset, run, length * sizeof(float));
                  });
}

void Measure(NumberFormat format, const std::string& name, int percent,
             Report* report) {
  Blocks blocks = MakeBlocks(percent / 100.0);
  Samples pack, unpack, copy;
  const int rounds = report->quick() ? 5 : 30;
  for (int round = -1; round < rounds; ++round) {
    const double copied = Microseconds([&](size_t block) {
      std::memcpy(blocks.pulled[block].data(), blocks.weights[block].data(),
                  kElements * sizeof(float));
    });
    const double packed =
        Microseconds([&](size_t block) { Pack(format, block, &blocks); });
    const double unpacked =
        Microseconds([&](size_t block) { Unpack(format, block, &blocks); });
    if (round < 0) continue;
    copy.Add(copied);
    pack.Add(packed);
    unpack.Add(unpacked);
  }
  CHECK(blocks.pulled == blocks.weights, "what is unpacked was packed");
  const std::string of = absl::StrCat(name, "_", percent);
  report->Add(
      {absl::StrCat("pack_", of), "us", pack, Figure::Peer{"copy", copy}});
  report->Add(
      {absl::StrCat("unpack_", of), "us", unpack, Figure::Peer{"copy", copy}});
  Samples bytes, dense;
  bytes.Add(static_cast<double>(ChainSize(blocks.packed[0])));
  dense.Add(static_cast<double>(kElements * BytesOf(format)));
  report->Add(
      {absl::StrCat("bytes_", of), "B", bytes, Figure::Peer{"whole", dense}});
}

int RunPacked(int argc, char** argv) {
  Report report("packed", argc, argv);
  for (const int percent : {50, 75, 87, 95}) {
    if (report.Wants("fp32")) {
      Measure(NumberFormat::kFp32, "fp32", percent, &report);
    }
    if (report.Wants("bf16")) {
      Measure(NumberFormat::kBf16, "bf16", percent, &report);
    }
  }
  return 0;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) { return paramd::RunPacked(argc, argv); }
