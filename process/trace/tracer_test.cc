#include "process/trace/tracer.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Lane = ChromeTrace::Lane;

v1::TraceRequest AskOf(uint64_t nonce, uint32_t duration_ms = 100,
                       uint64_t have = 0) {
  v1::TraceRequest request;
  request.set_nonce(nonce);
  request.set_duration_ms(duration_ms);
  request.set_have(have);
  return request;
}

class TracerTest : public ::testing::Test {
 protected:
  void Add(Lane lane, const char* name) {
    const Time now = MonotonicNow();
    trace_.Add(lane, name, now, now + absl::Microseconds(3));
  }
  // Asks as long as it records.
  absl::StatusOr<v1::TraceReply> AwaitEnd(const v1::TraceRequest& request) {
    for (;;) {
      auto reply = tracer_.Answer(request);
      if (!reply.ok() || !reply->recording()) return reply;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  ChromeTrace trace_{"", 0, ChromeTrace::Keeps::kWhatIsAskedFor};
  Tracer tracer_{"ps-1", &trace_};
};

TEST_F(TracerTest, WhatHappensMeanwhileIsHandedOverOnce) {
  Add(Lane::kPull, "before");
  const auto begun = tracer_.Answer(AskOf(7, 2000));
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_TRUE(begun->recording());
  EXPECT_EQ(begun->events_size(), 0);
  EXPECT_GT(begun->clock_ns(), 0);
  Add(Lane::kPush, "push");
  const Time now = MonotonicNow();
  trace_.AddRecorded({.lane = Lane::kTurns,
                      .name = "Push",
                      .begin = now,
                      .end = now,
                      .numbers = {{"push", 17}},
                      .flows = {{99, ChromeTrace::Phase::kStep}}});
  const auto reply = AwaitEnd(AskOf(7, 2000));
  ASSERT_TRUE(reply.ok()) << reply.status();
  Add(Lane::kPush, "after");
  EXPECT_EQ(reply->process(), "ps-1");
  EXPECT_EQ(reply->total(), 2u);
  ASSERT_EQ(reply->events_size(), 2);
  EXPECT_GT(reply->clock_ns(), begun->clock_ns());
  const v1::TraceEvent& push = reply->events(0);
  EXPECT_EQ(reply->names(static_cast<int>(push.name())), "push");
  EXPECT_EQ(reply->names(static_cast<int>(push.lane())), "push");
  EXPECT_EQ(push.duration_ns(), 3000u);
  const v1::TraceEvent& turn = reply->events(1);
  EXPECT_EQ(reply->names(static_cast<int>(turn.lane())), "turns");
  ASSERT_EQ(turn.numbers_size(), 1);
  EXPECT_EQ(turn.numbers(0).value(), 17u);
  ASSERT_EQ(turn.flows_size(), 1);
  EXPECT_EQ(turn.flows(0).id(), 99u);
  EXPECT_EQ(turn.flows(0).phase(), v1::TraceFlow::STEP);
  // The answer may have been lost.
  EXPECT_EQ(tracer_.Answer(AskOf(7, 2000))->events_size(), 2);
  // Who has all lets go of them.
  EXPECT_EQ(tracer_.Answer(AskOf(7, 2000, 2))->events_size(), 0);
  EXPECT_THAT(std::string(tracer_.Answer(AskOf(7, 2000)).status().message()),
              HasSubstr("it has handed them over"));
}

TEST_F(TracerTest, ManyEventsComeInPieces) {
  ASSERT_TRUE(tracer_.Answer(AskOf(7, 2000)).ok());
  // A few that are large, so that they are there in time.
  constexpr uint64_t kEvents = 2000;
  const Time now = MonotonicNow();
  for (uint64_t i = 0; i < kEvents; ++i) {
    trace_.AddRecorded(
        {.lane = Lane::kTurns,
         .name = "Push",
         .begin = now,
         .end = now,
         .numbers = std::vector<ChromeTrace::Number>(
             32, {"push", std::numeric_limits<uint64_t>::max()})});
  }
  uint64_t have = 0;
  int pieces = 0;
  while (have < kEvents) {
    const auto reply = AwaitEnd(AskOf(7, 2000, have));
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->total(), kEvents);
    ASSERT_GT(reply->events_size(), 0);
    EXPECT_LT(reply->ByteSizeLong(), size_t{1} << 20);
    have += static_cast<uint64_t>(reply->events_size());
    ++pieces;
  }
  EXPECT_EQ(have, kEvents);
  EXPECT_GT(pieces, 1);
}

TEST_F(TracerTest, SomebodyElseIsRefusedMeanwhile) {
  // Long enough that the machine may be busy.
  ASSERT_TRUE(tracer_.Answer(AskOf(7, 60000)).ok());
  const absl::Status second = tracer_.Answer(AskOf(8)).status();
  EXPECT_EQ(RefusalOf(second).reason(), v1::Refusal::RETRY) << second;
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("ps-1 is being traced by somebody else, for "));
  EXPECT_TRUE(tracer_.Answer(AskOf(7, 60000))->recording());
}

TEST_F(TracerTest, SomebodyElseIsRefusedUntilAllIsFetched) {
  Tracer tracer("ps-1", &trace_, /*patience=*/absl::Minutes(10));
  ASSERT_TRUE(tracer.Answer(AskOf(7, 2000)).ok());
  Add(Lane::kPush, "push");
  // It has recorded, and who asked has not come back yet.
  absl::SleepFor(absl::Milliseconds(2100));
  const absl::Status early = tracer.Answer(AskOf(8)).status();
  EXPECT_EQ(RefusalOf(early).reason(), v1::Refusal::RETRY) << early;
  const auto reply = tracer.Answer(AskOf(7, 2000));
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->events_size(), 1);
  // They are on their way, and may be lost.
  const absl::Status late = tracer.Answer(AskOf(8)).status();
  EXPECT_EQ(RefusalOf(late).reason(), v1::Refusal::RETRY) << late;
  EXPECT_EQ(tracer.Answer(AskOf(7, 2000))->events_size(), 1);
  EXPECT_TRUE(tracer.Answer(AskOf(7, 2000, 1)).ok());
  const auto next = tracer.Answer(AskOf(8));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(next->recording());
}

TEST_F(TracerTest, WhoeverNeverComesBackIsNotWaitedFor) {
  Tracer tracer("ps-1", &trace_, /*patience=*/absl::ZeroDuration());
  ASSERT_TRUE(tracer.Answer(AskOf(7)).ok());
  Add(Lane::kPush, "push");
  absl::SleepFor(absl::Milliseconds(110));
  EXPECT_TRUE(tracer.Answer(AskOf(8)).ok());
  Add(Lane::kPush, "push");
  absl::SleepFor(absl::Milliseconds(110));
  // The second one has begun to fetch, and does not go on.
  EXPECT_TRUE(tracer.Answer(AskOf(8)).ok());
  EXPECT_TRUE(tracer.Answer(AskOf(9)).ok());
}

TEST_F(TracerTest, WhoeverHasEventsBeginsNothing) {
  // The process was started again meanwhile.
  const absl::Status gone = tracer_.Answer(AskOf(7, 100, 5)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr("are gone from ps-1"));
  EXPECT_FALSE(trace_.is_on());
  // Somebody else has traced it since.
  ASSERT_TRUE(AwaitEnd(AskOf(8)).ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(tracer_.Answer(AskOf(7, 100, 5)).status()));
  EXPECT_FALSE(trace_.is_on());
}

TEST_F(TracerTest, ADurationAndWhatOneHasHaveBounds) {
  for (const uint32_t wrong : {0u, 99u, 60001u, 4000000000u}) {
    const absl::Status status = tracer_.Answer(AskOf(1, wrong)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("a trace takes 100ms to 1m, not"));
  }
  ASSERT_TRUE(AwaitEnd(AskOf(2)).ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(tracer_.Answer(AskOf(2, 100, 1)).status()));
}

TEST_F(TracerTest, WhatIsClosedRecordsNothing) {
  ASSERT_TRUE(tracer_.Answer(AskOf(7, 60000)).ok());
  EXPECT_TRUE(trace_.is_on());
  tracer_.Close();
  EXPECT_FALSE(trace_.is_on());
  const absl::Status status = tracer_.Answer(AskOf(7, 60000)).status();
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::JOB_FINISHED) << status;
}

TEST_F(TracerTest, ThreadsAddWhileItIsAsked) {
  ASSERT_TRUE(tracer_.Answer(AskOf(7, 200)).ok());
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, &done] {
      while (!done) {
        const ChromeTrace::Scope scope(&trace_, Lane::kCpu, "map");
        absl::SleepFor(absl::Microseconds(100));
      }
    });
  }
  const auto reply = AwaitEnd(AskOf(7, 200));
  done = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_GT(reply->events_size(), 4);
}

}  // namespace
}  // namespace paramd
