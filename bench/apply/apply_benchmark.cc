// How fast one thread applies received gradients to blocks, beside how fast the
// same thread reads and writes memory.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "server/core/block.h"
#include "server/core/memory_budget.h"
#include "server/core/optimizer.h"
#include "server/core/optimizer_kernels.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// 64 MiB of values, which fit no cache.
constexpr int kBlocks = 64;

template <typename Work>
double Seconds(const Work& work) {
  const Time begin = MonotonicNow();
  work();
  return absl::ToDoubleSeconds(MonotonicNow() - begin);
}

// As if received: at an odd address, cut in the middle of an element.
BufferChain MakeGradient(uint64_t key) {
  const size_t bytes = kMaxBlockElements * sizeof(float);
  Buffer buffer = Buffer::Allocate(bytes + 1);
  auto* out = reinterpret_cast<char*>(buffer.mutable_bytes().data()) + 1;
  const CounterRandom random(key);
  for (size_t i = 0; i < kMaxBlockElements; ++i) {
    const float value = random.Uniform(i) - 0.5f;
    std::memcpy(out + i * sizeof(float), &value, sizeof(float));
  }
  return {buffer.Part(1, 70001), buffer.Part(70002, bytes - 70001)};
}

// What is measured: one optimizer on one set of blocks, or a limit.
class Work {
 public:
  virtual ~Work() = default;
  // Does it once; bytes that it read and wrote, each time counted.
  virtual double Bytes() const = 0;
  virtual void Do() = 0;
};

class Applying : public Work {
 public:
  // `read`: somebody holds every block, so it is replaced and not changed.
  Applying(const v1::OptimizerConfig& config, bool read,
           const std::vector<BufferChain>* gradients)
      : optimizer_(*Optimizer::Create(config, 0)),
        read_(read),
        gradients_(gradients),
        spare_(&memory_) {
    for (int b = 0; b < kBlocks; ++b) {
      Block& block = blocks_.emplace_back(
          kMaxBlockElements, optimizer_.slots().size() * kMaxBlockElements, 1,
          &spare_);
      std::fill(block.mutable_values().begin(), block.mutable_values().end(),
                0);
      for (size_t s = 0; s < optimizer_.slots().size(); ++s) {
        const absl::Span<float> slot = block.mutable_slots().subspan(
            s * kMaxBlockElements, kMaxBlockElements);
        std::fill(slot.begin(), slot.end(), optimizer_.initial_slot(s));
      }
    }
  }

  // The gradient is read; values and slots are read and written.
  double Bytes() const override {
    return 4.0 * (3 + 2 * optimizer_.slots().size()) * kMaxBlockElements *
           kBlocks;
  }
  void Do() override {
    for (int b = 0; b < kBlocks; ++b) {
      const Buffer values = read_ ? blocks_[b].values() : Buffer();
      const Buffer slots = read_ ? blocks_[b].slots() : Buffer();
      ChainReader reader((*gradients_)[b]);
      blocks_[b].Apply(optimizer_, &reader, &spare_);
    }
  }

 private:
  const Optimizer optimizer_;
  const bool read_;
  const std::vector<BufferChain>* const gradients_;
  MemoryBudget memory_;
  SpareBuffers spare_;
  std::vector<Block> blocks_;
};

// As many numbers as a set of blocks has, on the same kinds of pages: what is
// written to on huge ones, what is read as gradients are received.
class Limit : public Work {
 public:
  Limit()
      : to_(Buffer::Allocate(sizeof(float) * kBlocks * kMaxBlockElements)),
        from_(size_t{kBlocks} * kMaxBlockElements, 1.0f) {
    std::memset(to_.mutable_bytes().data(), 0, to_.size());
  }

 protected:
  float* to() { return reinterpret_cast<float*>(to_.mutable_bytes().data()); }
  const float* from() const { return from_.data(); }
  size_t count() const { return from_.size(); }

 private:
  Buffer to_;
  const std::vector<float> from_;
};

// a += b over as many numbers, in loops that the compiler makes wide: the same
// reads and writes as plain SGD.
class Adding : public Limit {
 public:
  double Bytes() const override { return 12.0 * count(); }
  void Do() override { Add(to(), from(), count()); }

 private:
  __attribute__((target("avx2"))) static void Add(float* __restrict to,
                                                  const float* __restrict from,
                                                  size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] += from[i];
  }
};

class Copying : public Limit {
 public:
  double Bytes() const override { return 8.0 * count(); }
  void Do() override {
    std::memcpy(to(), from(), count() * sizeof(float));
    asm volatile("" : : "r"(to()) : "memory");
  }
};

// One read of as many gradients: for finite numbers, or their mean square too.
class Checking : public Work {
 public:
  Checking(bool mean_square, const std::vector<BufferChain>* gradients)
      : optimizer_(*Optimizer::Create(Sgd(), 0)),
        mean_square_(mean_square),
        gradients_(gradients) {}
  double Bytes() const override { return 4.0 * kMaxBlockElements * kBlocks; }
  void Do() override {
    double sum = 0;
    for (const BufferChain& chain : *gradients_) {
      ChainReader reader(chain);
      sum += mean_square_
                 ? optimizer_.ReadMeanSquare(&reader, kMaxBlockElements)
                 : optimizer_.ReadFinite(&reader, kMaxBlockElements);
    }
    asm volatile("" : : "r"(&sum) : "memory");
  }

  static v1::OptimizerConfig Sgd() {
    v1::OptimizerConfig config;
    config.mutable_sgd();
    config.set_learning_rate(0.001);
    return config;
  }

 private:
  const Optimizer optimizer_;
  const bool mean_square_;
  const std::vector<BufferChain>* const gradients_;
};

std::vector<std::pair<std::string, v1::OptimizerConfig>> Optimizers() {
  v1::OptimizerConfig momentum = Checking::Sgd();
  momentum.mutable_sgd()->set_momentum(0.9);
  v1::OptimizerConfig adagrad = Checking::Sgd();
  adagrad.mutable_adagrad();
  v1::OptimizerConfig adam = Checking::Sgd();
  adam.mutable_adam();
  return {{"sgd", Checking::Sgd()},
          {"momentum", momentum},
          {"adagrad", adagrad},
          {"adam", adam}};
}

void Run(Report* report) {
  std::vector<BufferChain> gradients;
  for (int b = 0; b < kBlocks; ++b) gradients.push_back(MakeGradient(b));
  const int rounds = report->quick() ? 5 : 15;
  Samples limit;
  Adding adding;
  Copying copying;
  const auto measure = [&](Work* work, Samples* gb_per_s, Samples* share) {
    for (int round = -1; round < rounds; ++round) {
      const double add = adding.Bytes() / Seconds([&] { adding.Do(); });
      const double copy = copying.Bytes() / Seconds([&] { copying.Do(); });
      const double rate = work->Bytes() / Seconds([&] { work->Do(); });
      if (round < 0) continue;
      gb_per_s->Add(1e-9 * rate);
      share->Add(rate / std::max(add, copy));
      limit.Add(1e-9 * std::max(add, copy));
    }
  };
  for (const auto& [name, config] : Optimizers()) {
    for (const bool read : {false, true}) {
      report->Progress(absl::StrCat("apply: ", name));
      Applying applying(config, read, &gradients);
      Samples gb_per_s, share, parameters;
      measure(&applying, &gb_per_s, &share);
      const std::string metric = absl::StrCat(name, read ? "_replaced" : "");
      for (const double rate : gb_per_s.values()) {
        parameters.Add(rate * kBlocks * kMaxBlockElements / applying.Bytes());
      }
      report->Add({metric + "_gb_per_s", "GB/s", gb_per_s, {}});
      report->Add({metric + "_parameters_per_s", "1e9/s", parameters, {}});
      report->Add({metric + "_roofline", "", share, {}});
    }
  }
  for (const bool mean_square : {false, true}) {
    Checking checking(mean_square, &gradients);
    Samples gb_per_s, share;
    measure(&checking, &gb_per_s, &share);
    report->Add({mean_square ? "check_finite_and_spike_roofline"
                             : "check_finite_roofline",
                 "",
                 share,
                 {}});
  }
  report->Add({"limit_gb_per_s", "GB/s", limit, {}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("apply", argc, argv);
  paramd::Run(&report);
}
