#include "worker/collective/bucketed_sum.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "worker/collective/in_process_collective.h"

namespace paramd {
namespace {

using Gradients = std::vector<std::vector<float>>;

std::vector<absl::Span<float>> SpansOf(Gradients* gradients) {
  std::vector<absl::Span<float>> spans;
  for (auto& variable : *gradients) spans.push_back(absl::MakeSpan(variable));
  return spans;
}

// Counts the reductions, and fails on demand.
class Alone : public Collective {
 public:
  size_t rank() const override { return 0; }
  size_t size() const override { return 1; }
  absl::Status Sum(absl::Span<float> values) override {
    lengths.push_back(values.size());
    for (float& value : values) value *= 2;
    if (lengths.size() != fails_at) return absl::OkStatus();
    return absl::UnavailableError("worker-1 is gone");
  }
  absl::Status Gather(absl::Span<const double>, absl::Span<double>) override {
    return absl::OkStatus();
  }
  void Abort() override {}

  std::vector<size_t> lengths;
  size_t fails_at = 0;
};

TEST(BucketedSumTest, SmallGradientsGoTogetherFromTheLastToTheFirst) {
  BucketedSum sum({10, 1, 2, 3}, 6 * sizeof(float));
  EXPECT_EQ(sum.buckets(), 2u);
  Gradients gradients = {std::vector<float>(10, 1), {2}, {3, 4}, {5, 6, 7}};
  Alone alone;
  const auto spans = SpansOf(&gradients);
  sum.Begin(spans, &alone);
  sum.Ready(0);  // Waits for those after it.
  for (size_t v = 1; v < 4; ++v) sum.Ready(v);
  ASSERT_TRUE(sum.End().ok());
  EXPECT_EQ(alone.lengths, std::vector<size_t>({6, 10}));
  EXPECT_EQ(gradients,
            Gradients({std::vector<float>(10, 2), {4}, {6, 8}, {10, 12, 14}}));
}

// config/examples/residual.json: eight convolutions, each with scale, shift,
// mean and variance after it, and a dense layer.
TEST(BucketedSumTest, GradientsOfAResidualNetworkAreOneReductionInPlaceOf42) {
  std::vector<uint64_t> elements;
  for (const uint64_t kernel :
       {288, 9216, 9216, 18432, 36864, 2048, 36864, 36864}) {
    const uint64_t filters = kernel <= 9216 && kernel != 2048 ? 32 : 64;
    elements.insert(elements.end(),
                    {kernel, filters, filters, filters, filters});
  }
  elements.insert(elements.end(), {640, 10});
  EXPECT_EQ(BucketedSum(elements, uint64_t{4} << 20).buckets(), 1u);
  EXPECT_EQ(BucketedSum(elements, 1).buckets(), 42u);
}

TEST(BucketedSumTest, WhatIsNotSaidToBeReadyIsReadyAtTheEnd) {
  BucketedSum sum({1, 1}, 1);
  Gradients gradients = {{1}, {2}};
  Alone alone;
  const auto spans = SpansOf(&gradients);
  sum.Begin(spans, &alone);
  ASSERT_TRUE(sum.End().ok());
  EXPECT_EQ(gradients, Gradients({{2}, {4}}));
}

TEST(BucketedSumTest, BehindOneThatFailsNothingIsReducedUntilTheNextStep) {
  BucketedSum sum({1, 1, 1}, 1);
  Gradients gradients = {{1}, {2}, {3}};
  Alone alone;
  alone.fails_at = 2;
  const auto spans = SpansOf(&gradients);
  sum.Begin(spans, &alone);
  EXPECT_EQ(sum.End(), absl::UnavailableError("worker-1 is gone"));
  EXPECT_EQ(alone.lengths.size(), 2u);
  sum.Begin(spans, &alone);
  EXPECT_TRUE(sum.End().ok());
  EXPECT_EQ(alone.lengths.size(), 5u);
}

TEST(BucketedSumTest, MembersMaySayInAnyOrderWhatIsReady) {
  auto members = MakeInProcessCollective(2);
  std::vector<std::thread> threads;
  for (auto& member : members) {
    threads.emplace_back([m = member.get()] {
      BucketedSum sum({3, 1, 2}, 4);
      for (int step = 0; step < 50; ++step) {
        const float own = static_cast<float>(m->rank() + 1);
        Gradients gradients = {{own, own, own}, {own}, {own, own}};
        const auto spans = SpansOf(&gradients);
        sum.Begin(spans, m);
        for (size_t v = 0; v < 3; ++v) sum.Ready((v + m->rank() + step) % 3);
        ASSERT_TRUE(sum.End().ok());
        EXPECT_EQ(gradients, Gradients({{3, 3, 3}, {3}, {3, 3}}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace paramd
