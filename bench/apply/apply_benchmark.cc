#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/time/time.h"

#include "base/clock.h"
#include "base/random.h"
#include "server/core/block.h"
#include "server/core/optimizer.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

constexpr int kRounds = 20;

Optimizer Make(bool adam) {
  v1::OptimizerConfig config;
  if (adam) {
    config.mutable_adam();
  } else {
    config.mutable_sgd();
  }
  config.set_learning_rate(0.001);
  return *Optimizer::Create(config, 0);
}

// Best of some rounds of `work`, in seconds.
template <typename Work>
double BestSeconds(const Work& work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const Time begin = MonotonicNow();
    work();
    best = std::min(best, absl::ToDoubleSeconds(MonotonicNow() - begin));
  }
  return best;
}

// As if received: at an odd address, cut in the middle of an element.
BufferChain Gradient() {
  const size_t bytes = kBlockElements * sizeof(float);
  Buffer buffer = Buffer::Allocate(bytes + 1);
  auto* out = reinterpret_cast<char*>(buffer.mutable_bytes().data()) + 1;
  const CounterRandom random(1);
  for (size_t i = 0; i < kBlockElements; ++i) {
    const float value = random.Uniform(i) - 0.5f;
    std::memcpy(out + i * sizeof(float), &value, sizeof(float));
  }
  return {buffer.Part(1, 70001), buffer.Part(70002, bytes - 70001)};
}

double CopyGigabytes(int blocks) {
  const size_t bytes = kBlockElements * sizeof(float) * blocks;
  Buffer from = Buffer::Allocate(bytes);
  Buffer to = Buffer::Allocate(bytes);
  std::memset(from.mutable_bytes().data(), 1, bytes);
  std::memset(to.mutable_bytes().data(), 1, bytes);
  char* const out = reinterpret_cast<char*>(to.mutable_bytes().data());
  const double seconds = BestSeconds([&] {
    std::memcpy(out, from.bytes().data(), bytes);
    asm volatile("" : : "r"(out) : "memory");
  });
  return 2e-9 * bytes / seconds;
}

double ApplyGigabytes(bool adam, bool read, int blocks) {
  const Optimizer optimizer = Make(adam);
  const BufferChain gradient = Gradient();
  SpareBuffers spare(2 * blocks + 2);
  std::vector<Block> all;
  for (int b = 0; b < blocks; ++b) {
    Block& block =
        all.emplace_back(kBlockElements, optimizer.slots().size(), 1);
    std::fill(block.mutable_values().begin(), block.mutable_values().end(), 0);
    for (size_t s = 0; s < optimizer.slots().size(); ++s) {
      std::fill(block.mutable_slot(s).begin(), block.mutable_slot(s).end(), 0);
    }
  }
  const double seconds = BestSeconds([&] {
    for (Block& block : all) {
      const Buffer values = read ? block.values() : Buffer();
      const Buffer slots = read ? block.slots() : Buffer();
      ChainReader reader(gradient);
      block.Apply(optimizer, &reader, &spare);
    }
  });
  return (adam ? 28e-9 : 12e-9) * kBlockElements * blocks / seconds;
}

// Of one read of a gradient of that many blocks: for finite numbers, or for
// their mean square too.
double CheckGigabytes(bool mean_square, int blocks) {
  const Optimizer optimizer = Make(/*adam=*/false);
  const std::vector<Buffer> gradients = [&] {
    std::vector<Buffer> made;
    for (int b = 0; b < blocks; ++b) {
      made.push_back(Buffer::Allocate(kBlockElements * sizeof(float)));
      std::memset(made.back().mutable_bytes().data(), 1, made.back().size());
    }
    return made;
  }();
  double sum = 0;
  const double seconds = BestSeconds([&] {
    for (const Buffer& gradient : gradients) {
      const BufferChain chain = {gradient};
      ChainReader reader(chain);
      sum += mean_square ? optimizer.ReadMeanSquare(&reader, kBlockElements)
                         : optimizer.ReadFinite(&reader, kBlockElements);
    }
    asm volatile("" : : "r"(&sum) : "memory");
  });
  return 4e-9 * kBlockElements * blocks / seconds;
}

void Run() {
  for (const int blocks : {1, 64}) {
    const double copy = CopyGigabytes(blocks);
    for (const bool mean_square : {false, true}) {
      std::printf(
          "check=%s blocks=%d read_gb_per_s=%.1f memcpy_gb_per_s=%.1f\n",
          mean_square ? "finite_and_spike" : "finite", blocks,
          CheckGigabytes(mean_square, blocks), copy);
    }
    for (const bool adam : {false, true}) {
      for (const bool read : {false, true}) {
        const double apply = ApplyGigabytes(adam, read, blocks);
        std::printf(
            "optimizer=%s blocks=%d case=%s apply_gb_per_s=%.1f "
            "memcpy_gb_per_s=%.1f ratio=%.2f\n",
            adam ? "adam" : "sgd", blocks, read ? "replaced" : "in_place",
            apply, copy, apply / copy);
      }
    }
  }
}

}  // namespace
}  // namespace paramd

int main() { paramd::Run(); }
