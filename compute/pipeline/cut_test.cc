#include "compute/pipeline/cut.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/pipeline/stage_order.h"
#include "tensor/tensor.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

using Numbers = std::vector<float>;

Buffer BufferOf(const Numbers& numbers) {
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)));
}

Numbers NumbersOf(const Buffer& buffer) {
  const auto* const data =
      reinterpret_cast<const float*>(buffer.bytes().data());
  return {data, data + buffer.size() / sizeof(float)};
}

// The examples of a micro-batch, whose sums depend on their order.
Numbers ExamplesOf(uint32_t micro_batch) {
  Numbers numbers;
  for (int i = 0; i < 5; ++i) {
    numbers.push_back(std::sin(0.7f + 13.0f * micro_batch + 3.1f * i));
  }
  return numbers;
}

// Some layers y = tanh(w x) of one weight each, at the end of which the loss is
// the sum of the squares.
class TanhStage : public CutStage {
 public:
  TanhStage(std::vector<float> weights, bool is_first, bool is_last)
      : weights_(std::move(weights)),
        gradients_(weights_.size()),
        is_first_(is_first),
        is_last_(is_last) {}

  absl::StatusOr<Buffer> Forward(uint32_t m, Buffer input) override {
    threads_.insert(std::this_thread::get_id());
    EXPECT_EQ(input.size() == 0, is_first_);
    if (m == fails_at_) return absl::DataLossError("example 7 is odd");
    Kept& kept = kept_.emplace_back();
    kept.micro_batch = m;
    most_kept_ = std::max(most_kept_, kept_.size());
    kept.values = {is_first_ ? ExamplesOf(m) : NumbersOf(input)};
    for (const float weight : weights_) {
      Numbers next = kept.values.back();
      for (float& value : next) value = std::tanh(weight * value);
      kept.values.push_back(next);
    }
    return BufferOf(kept.values.back());
  }

  absl::StatusOr<Buffer> Backward(uint32_t m, Buffer gradient) override {
    threads_.insert(std::this_thread::get_id());
    EXPECT_EQ(gradient.size() == 0, is_last_);
    Kept& kept = KeptOf(m);
    Numbers slope = NumbersOf(gradient);
    if (is_last_) {
      slope = kept.values.back();
      for (float& value : slope) value *= 2;
    }
    kept.slopes.resize(weights_.size());
    for (size_t l = weights_.size(); l-- > 0;) {
      for (size_t i = 0; i < slope.size(); ++i) {
        const float y = kept.values[l + 1][i];
        slope[i] *= 1 - y * y;
      }
      kept.slopes[l] = slope;
      for (float& value : slope) value *= weights_[l];
    }
    return BufferOf(slope);
  }

  absl::Status AddGradients(uint32_t m) override {
    const Kept& kept = KeptOf(m);
    for (size_t l = 0; l < weights_.size(); ++l) {
      for (size_t i = 0; i < kept.slopes[l].size(); ++i) {
        gradients_[l] += kept.slopes[l][i] * kept.values[l][i];
      }
    }
    kept_.erase(kept_.begin() + (&kept - kept_.data()));
    return absl::OkStatus();
  }

  void Clear() {
    kept_.clear();
    fails_at_ = ~0u;
    gradients_.assign(gradients_.size(), 0);
  }
  void FailAt(uint32_t micro_batch) { fails_at_ = micro_batch; }
  const std::vector<float>& gradients() const { return gradients_; }
  size_t most_kept() const { return most_kept_; }
  size_t threads() const { return threads_.size(); }

 private:
  struct Kept {
    uint32_t micro_batch = 0;
    std::vector<Numbers> values;  // The input, then of each layer.
    std::vector<Numbers> slopes;
  };

  Kept& KeptOf(uint32_t m) {
    return *std::find_if(kept_.begin(), kept_.end(),
                         [m](const Kept& one) { return one.micro_batch == m; });
  }

  const std::vector<float> weights_;
  std::vector<float> gradients_;
  const bool is_first_;
  const bool is_last_;
  uint32_t fails_at_ = ~0u;
  std::vector<Kept> kept_;
  size_t most_kept_ = 0;
  std::set<std::thread::id> threads_;
};

constexpr size_t kLayers = 4;

struct Tanhs {
  std::vector<TanhStage*> stages;
  std::unique_ptr<Cut> cut;

  std::vector<float> gradients() const {
    std::vector<float> all;
    for (const TanhStage* stage : stages) {
      all.insert(all.end(), stage->gradients().begin(),
                 stage->gradients().end());
    }
    return all;
  }
};

// All layers, in so many stages.
Tanhs TanhsIn(const std::string& schedule, uint32_t stages,
              uint32_t stages_per_device = 1) {
  Tanhs made;
  std::vector<std::unique_ptr<CutStage>> owned;
  for (uint32_t s = 0; s < stages; ++s) {
    std::vector<float> weights;
    for (size_t l = kLayers * s / stages; l < kLayers * (s + 1) / stages; ++l) {
      weights.push_back(0.9f + 0.3f * static_cast<float>(l));
    }
    auto stage = std::make_unique<TanhStage>(std::move(weights), s == 0,
                                             s + 1 == stages);
    made.stages.push_back(stage.get());
    owned.push_back(std::move(stage));
  }
  made.cut = *Cut::Create(schedule, std::move(owned), stages_per_device);
  return made;
}

// By a loop over micro-batches.
std::vector<float> GradientsOfALoop(uint32_t micro_batches) {
  std::vector<float> weights;
  for (size_t l = 0; l < kLayers; ++l) {
    weights.push_back(0.9f + 0.3f * static_cast<float>(l));
  }
  TanhStage whole(weights, true, true);
  for (uint32_t m = 0; m < micro_batches; ++m) {
    EXPECT_TRUE(whole.Forward(m, Buffer()).ok());
    EXPECT_TRUE(whole.Backward(m, Buffer()).ok());
    EXPECT_TRUE(whole.AddGradients(m).ok());
  }
  return whole.gradients();
}

TEST(CutTest, AModelInStagesHasTheBitsOfALoopOverItsMicroBatches) {
  const struct {
    const char* schedule;
    uint32_t stages_per_device;
  } schedules[] = {{"naive", 1},       {"gpipe", 1},       {"1f1b", 1},
                   {"zero_bubble", 1}, {"interleaved", 2}, {"interleaved", 4}};
  for (const auto& [schedule, of_each] : schedules) {
    for (const uint32_t stages : {1, 2, 4}) {
      if (stages % of_each != 0) continue;
      Tanhs tanhs = TanhsIn(schedule, stages, of_each);
      // The last batch of an epoch is short; then the next begins.
      for (const uint32_t micro_batches : {8, 1, 3, 8}) {
        SCOPED_TRACE(absl::StrCat(schedule, " ", of_each, " in ", stages,
                                  ", of ", micro_batches));
        for (TanhStage* stage : tanhs.stages) stage->Clear();
        ASSERT_TRUE(tanhs.cut->Step(micro_batches).ok());
        EXPECT_EQ(tanhs.gradients(), GradientsOfALoop(micro_batches));
      }
      for (const TanhStage* stage : tanhs.stages) {
        EXPECT_EQ(stage->threads(), 1u);
      }
    }
  }
}

TEST(CutTest, AStageKeepsAsManyMicroBatchesAsTheScheduleSays) {
  for (const std::string schedule : {"naive", "gpipe", "1f1b", "zero_bubble"}) {
    SCOPED_TRACE(schedule);
    const Tanhs tanhs = TanhsIn(schedule, 4);
    ASSERT_TRUE(tanhs.cut->Step(8).ok());
    const auto needs = CheckSchedule(*ScheduleByName(schedule, 4, 1, 8));
    ASSERT_TRUE(needs.ok());
    for (size_t s = 0; s < 4; ++s) {
      EXPECT_EQ(tanhs.stages[s]->most_kept(), needs->live[s]) << s;
    }
  }
}

TEST(CutTest, AStageThatFailsEndsTheStepAndNotTheNextOne) {
  Tanhs tanhs = TanhsIn("1f1b", 4);
  for (size_t s = 0; s < 4; ++s) {
    tanhs.stages[s]->FailAt(2);
    EXPECT_EQ(tanhs.cut->Step(8), absl::DataLossError("example 7 is odd"));
    for (TanhStage* stage : tanhs.stages) stage->Clear();
    ASSERT_TRUE(tanhs.cut->Step(8).ok());
    EXPECT_EQ(tanhs.gradients(), GradientsOfALoop(8));
    for (TanhStage* stage : tanhs.stages) stage->Clear();
  }
}

TEST(CutTest, WhatCanNotBeIsSaid) {
  const auto refusal = [](const std::string& schedule, uint32_t stages,
                          uint32_t of_each) {
    std::vector<std::unique_ptr<CutStage>> owned;
    for (uint32_t s = 0; s < stages; ++s) {
      owned.push_back(std::make_unique<TanhStage>(std::vector<float>{1}, s == 0,
                                                  s + 1 == stages));
    }
    const auto cut = Cut::Create(schedule, std::move(owned), of_each);
    EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(cut.status().message());
  };
  EXPECT_THAT(refusal("2bw", 2, 1),
              HasSubstr("no schedule '2bw' with a flush"));
  EXPECT_THAT(refusal("1f1b", 0, 1), HasSubstr("1 stage and 1 micro-batch"));
  EXPECT_THAT(refusal("interleaved", 3, 2), HasSubstr("divides the 3 stages"));
  EXPECT_EQ(TanhsIn("1f1b", 2).cut->Step(0).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paramd
