#ifndef PARAMD_SERVER_CORE_TESTING_OPTIMIZER_BENCH_H_
#define PARAMD_SERVER_CORE_TESTING_OPTIMIZER_BENCH_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "server/core/optimizer.h"

// Optimizers of all kinds, and what tests have them do with a block.
namespace paramd::testing {

inline v1::OptimizerConfig Adam(double rate) {
  v1::OptimizerConfig config;
  config.mutable_adam();
  config.set_learning_rate(rate);
  return config;
}

inline v1::OptimizerConfig Sgd(double rate) {
  v1::OptimizerConfig config;
  config.mutable_sgd();
  config.set_learning_rate(rate);
  return config;
}

inline v1::OptimizerConfig Momentum(double rate, bool nesterov) {
  v1::OptimizerConfig config = Sgd(rate);
  config.mutable_sgd()->set_momentum(0.5);
  config.mutable_sgd()->set_nesterov(nesterov);
  return config;
}

inline v1::OptimizerConfig Adagrad(double rate) {
  v1::OptimizerConfig config;
  config.mutable_adagrad();
  config.set_learning_rate(rate);
  return config;
}

inline v1::OptimizerConfig Rmsprop(double rate, bool centered,
                                   double momentum) {
  v1::OptimizerConfig config;
  config.mutable_rmsprop()->set_centered(centered);
  config.mutable_rmsprop()->set_momentum(momentum);
  config.set_learning_rate(rate);
  return config;
}

inline v1::OptimizerConfig Ftrl(double rate) {
  v1::OptimizerConfig config;
  config.mutable_ftrl()->set_l1(0.25);
  config.mutable_ftrl()->set_l2(0.5);
  config.set_learning_rate(rate);
  return config;
}

inline v1::OptimizerConfig Adadelta(double rate) {
  v1::OptimizerConfig config;
  config.mutable_adadelta();
  config.set_learning_rate(rate);
  return config;
}

inline v1::OptimizerConfig Lamb(double rate, double decay) {
  v1::OptimizerConfig config;
  config.mutable_lamb()->set_weight_decay(decay);
  config.set_learning_rate(rate);
  return config;
}

inline std::vector<v1::OptimizerConfig> PlainConfigs() {
  return {Sgd(0.125),
          Momentum(0.125, false),
          Momentum(0.125, true),
          Adagrad(0.01),
          Adam(0.001),
          Rmsprop(0.01, false, 0),
          Rmsprop(0.01, false, 0.5),
          Rmsprop(0.01, true, 0),
          Rmsprop(0.01, true, 0.5),
          Ftrl(0.5),
          Adadelta(0.5),
          Lamb(0.01, 0),
          Lamb(0.01, 0.1)};
}

// Each of them also with decay and clipping.
inline std::vector<v1::OptimizerConfig> AllConfigs() {
  std::vector<v1::OptimizerConfig> configs = PlainConfigs();
  for (v1::OptimizerConfig config : PlainConfigs()) {
    config.set_weight_decay(0.25);
    config.set_clip_norm(0.5);
    configs.push_back(config);
    config.set_decay(v1::OptimizerConfig::DECAY_L2);
    config.clear_clip_norm();
    config.set_clip_value(0.5);
    configs.push_back(config);
  }
  v1::OptimizerConfig adamw;
  adamw.mutable_adamw();
  adamw.set_learning_rate(0.01);
  configs.push_back(adamw);
  return configs;
}

inline v1::Variable Named(const std::string& name) {
  v1::Variable variable;
  variable.set_name(name);
  return variable;
}

inline std::vector<float> Random(uint64_t key, size_t n) {
  std::vector<float> numbers(n);
  const CounterRandom random(key);
  for (size_t i = 0; i < n; ++i) numbers[i] = random.Uniform(i) * 2 - 1;
  return numbers;
}

// One Buffer that begins `shift` bytes after an aligned address.
inline Buffer Shifted(absl::Span<const std::byte> bytes, size_t shift) {
  Buffer buffer = Buffer::Allocate(bytes.size() + shift);
  if (!bytes.empty()) {
    std::memcpy(buffer.mutable_bytes().data() + shift, bytes.data(),
                bytes.size());
  }
  return buffer.Part(shift, bytes.size());
}

inline BufferChain Flat(const std::vector<float>& numbers) {
  return {Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)))};
}

// The same bytes, cut at random places, each piece at a random alignment.
inline BufferChain Cut(const std::vector<float>& numbers,
                       RandomStream* random) {
  auto bytes = AsBytes(absl::MakeConstSpan(numbers));
  BufferChain chain;
  while (!bytes.empty()) {
    const size_t most = random->Chance(0.3) ? 7 : bytes.size();
    const size_t length =
        std::min<size_t>(random->Below(most + 1), bytes.size());
    chain.push_back(Shifted(bytes.first(length), random->Below(4)));
    bytes.remove_prefix(length);
  }
  return chain;
}

struct State {
  std::vector<float> values;
  std::vector<float> slots;
  friend bool operator==(const State& a, const State& b) {
    return std::memcmp(a.values.data(), b.values.data(),
                       a.values.size() * sizeof(float)) == 0 &&
           (a.slots.empty() ||
            std::memcmp(a.slots.data(), b.slots.data(),
                        a.slots.size() * sizeof(float)) == 0);
  }
};

inline State Start(const Optimizer& optimizer, size_t n) {
  State state = {Random(1, n), {}};
  for (size_t s = 0; s < optimizer.slots().size(); ++s) {
    state.slots.insert(state.slots.end(), n, optimizer.initial_slot(s));
  }
  return state;
}

inline void ApplyInPlace(const Optimizer& optimizer,
                         const BufferChain& gradient, uint64_t applied,
                         State* state, const VariableOptions& variable = {}) {
  ChainReader reader(gradient);
  optimizer.Apply(&reader, applied,
                  {.elements = state->values.size(),
                   .values = state->values.data(),
                   .slots = state->slots.data(),
                   .new_values = state->values.data(),
                   .new_slots = state->slots.data()},
                  {.variable = variable});
  EXPECT_EQ(reader.remaining(), 0u);
}

}  // namespace paramd::testing

#endif  // PARAMD_SERVER_CORE_TESTING_OPTIMIZER_BENCH_H_
