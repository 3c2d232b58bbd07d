#include "worker/collective/mirror_exchange.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/collective/in_process_collective.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class MirrorExchangeTest : public ::testing::Test {
 protected:
  // Two members that do `steps` steps; what each one's last End said.
  std::vector<absl::Status> Run(int steps) {
    auto members = MakeInProcessCollective(2);
    std::vector<absl::Status> ended(2);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < 2; ++r) {
      MirrorExchange::Options options;
      options.replicas = 2;
      options.check_every_steps = 2;
      options.checksum = [this, r, calls = std::make_shared<int>(0)] {
        return ++*calls > differs_after_ ? static_cast<uint32_t>(r) : 7;
      };
      threads.emplace_back([this, r, steps, &ended, options,
                            member = std::move(members[r])]() mutable {
        MirrorExchange exchange(options, std::move(member));
        for (int s = 0; s < steps && ended[r].ok(); ++s) {
          ended[r] = Step(r, s, &exchange);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ended;
  }

  absl::Status Step(size_t rank, int number, MirrorExchange* exchange) {
    v1::ComputeGradient step;
    step.set_epoch(1);
    step.set_begin(10 * number + (rank == 1 ? lag_ : 0));
    std::vector<float> gradient = {static_cast<float>(rank + 1)};
    std::vector<absl::Span<float>> spans = {absl::MakeSpan(gradient)};
    std::vector<double> figures = {static_cast<double>(rank)};
    EXPECT_EQ(exchange->Begin(step, absl::MakeSpan(spans)),
              rank == 0 ? std::vector<uint32_t>({0, 1})
                        : std::vector<uint32_t>({2, 3}));
    exchange->Ready(0);
    const absl::Status ended = exchange->End(&figures);
    if (ended.ok()) {
      EXPECT_EQ(gradient[0], 3);
      EXPECT_EQ(figures, std::vector<double>({0, 1}));
    }
    return ended;
  }

  int differs_after_ = 1000;  // Checksums of a member.
  uint64_t lag_ = 0;
};

TEST_F(MirrorExchangeTest, EachComputesItsSharesAndAllGetTheSum) {
  for (const absl::Status& ended : Run(20)) EXPECT_TRUE(ended.ok()) << ended;
}

TEST_F(MirrorExchangeTest, ACopyThatBecomesAnotherOneIsNamedAndEndsAll) {
  differs_after_ = 3;
  for (const absl::Status& ended : Run(20)) {
    EXPECT_TRUE(absl::IsInternal(ended));
    EXPECT_THAT(std::string(ended.message()),
                HasSubstr("replica 0 and replica 1 are not the same"));
    EXPECT_THAT(std::string(ended.message()), HasSubstr("before example 60"));
  }
}

TEST_F(MirrorExchangeTest, MembersAtDifferentStepsAreNamedAndEndAll) {
  lag_ = 5;
  for (const absl::Status& ended : Run(1)) {
    EXPECT_TRUE(absl::IsInternal(ended));
    EXPECT_THAT(std::string(ended.message()),
                HasSubstr("replica 1 is at example 5"));
  }
}

TEST_F(MirrorExchangeTest, WhoIsInterruptedEndsAsCancelled) {
  auto members = MakeInProcessCollective(2);
  MirrorExchange::Options options;
  options.replicas = 2;
  MirrorExchange exchange(options, std::move(members[0]));
  std::thread other([&] { exchange.Interrupt(); });
  EXPECT_TRUE(absl::IsCancelled(Step(0, 0, &exchange)));
  other.join();
}

TEST_F(MirrorExchangeTest, WhatDevicesHaveSummedIsNotSummedAgain) {
  auto members = MakeInProcessCollective(2);
  std::vector<std::thread> threads;
  for (auto& member : members) {
    threads.emplace_back([member = std::move(member)]() mutable {
      MirrorExchange exchange({}, std::move(member));
      std::vector<float> gradient = {3};
      std::vector<absl::Span<float>> spans = {absl::MakeSpan(gradient)};
      for (const bool are_sums : {true, false, true}) {
        gradient = {3};
        exchange.Begin({}, absl::MakeSpan(spans));
        if (are_sums) exchange.GradientsAreSums();
        exchange.Ready(0);
        std::vector<double> figures = {1};
        ASSERT_TRUE(exchange.End(&figures).ok());
        EXPECT_EQ(gradient[0], are_sums ? 3 : 6);
        EXPECT_EQ(figures, std::vector<double>({1, 1}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MirrorExchangeTest, NobodyMeetsOneThatIsInterrupted) {
  auto members = MakeInProcessCollective(2);
  MirrorExchange::Options options;
  options.meeting = std::make_shared<ReplicaMeeting>(2);
  MirrorExchange exchange(options, std::move(members[0]));
  std::thread other([&] {
    EXPECT_TRUE(absl::IsCancelled(options.meeting->Meet(absl::OkStatus())));
  });
  exchange.Interrupt();
  other.join();
}

TEST_F(MirrorExchangeTest, WhyOneFailsIsSaidBeforeTheOthersNotice) {
  auto members = MakeInProcessCollective(2);
  absl::Status said;
  MirrorExchange::Options options;
  options.replicas = 2;
  MirrorExchange waits(options, std::move(members[0]));
  options.failed = [&](const absl::Status& why) { said = why; };
  MirrorExchange fails(options, std::move(members[1]));
  std::thread other([&] { fails.Fail(absl::DataLossError("line 202")); });
  EXPECT_TRUE(absl::IsCancelled(Step(0, 0, &waits)));
  EXPECT_TRUE(absl::IsDataLoss(said));
  other.join();
}

}  // namespace
}  // namespace paramd
