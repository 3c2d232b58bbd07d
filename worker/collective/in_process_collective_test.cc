#include "worker/collective/in_process_collective.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

template <typename F>
void OnEach(std::vector<std::unique_ptr<Collective>>* members, F f) {
  std::vector<std::thread> threads;
  for (auto& member : *members) {
    threads.emplace_back([&f, m = member.get()] { f(m); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(InProcessCollectiveTest, SumsAreInTheOrderOfRanks) {
  auto members = MakeInProcessCollective(3);
  const std::vector<float> of = {1e8f, 1.0f, -1e8f};
  std::vector<std::vector<float>> values(3);
  for (int again = 0; again < 100; ++again) {
    OnEach(&members, [&](Collective* m) {
      values[m->rank()].assign(7, of[m->rank()]);
      ASSERT_TRUE(m->Sum(absl::MakeSpan(values[m->rank()])).ok());
    });
    const float sum = (of[0] + of[1]) + of[2];
    for (const auto& mine : values) EXPECT_EQ(mine, std::vector<float>(7, sum));
  }
}

TEST(InProcessCollectiveTest, FewerValuesThanMembersAreSummed) {
  auto members = MakeInProcessCollective(4);
  OnEach(&members, [&](Collective* m) {
    std::vector<float> one = {static_cast<float>(m->rank())};
    ASSERT_TRUE(m->Sum(absl::MakeSpan(one)).ok());
    EXPECT_EQ(one[0], 6);
    ASSERT_TRUE(m->Sum({}).ok());
  });
}

TEST(InProcessCollectiveTest, GathersByRank) {
  auto members = MakeInProcessCollective(3);
  OnEach(&members, [&](Collective* m) {
    const double rank = static_cast<double>(m->rank());
    const std::vector<double> own = {rank, 10 + rank};
    std::vector<double> all(6);
    ASSERT_TRUE(m->Gather(own, absl::MakeSpan(all)).ok());
    EXPECT_EQ(all, std::vector<double>({0, 10, 1, 11, 2, 12}));
  });
}

TEST(InProcessCollectiveTest, AbortEndsTheWaitOfTheOthers) {
  auto members = MakeInProcessCollective(3);
  OnEach(&members, [&](Collective* m) {
    if (m->rank() == 1) return m->Abort();
    std::vector<float> values(3);
    EXPECT_TRUE(absl::IsUnavailable(m->Sum(absl::MakeSpan(values))));
    EXPECT_TRUE(absl::IsUnavailable(m->Sum(absl::MakeSpan(values))));
  });
}

}  // namespace
}  // namespace paramd
