#include "process/profile/profiler.h"

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

v1::ProfileRequest RequestOf(uint64_t nonce, uint32_t duration_ms = 100) {
  v1::ProfileRequest request;
  request.set_nonce(nonce);
  request.set_duration_ms(duration_ms);
  return request;
}

bool IsForNow(const absl::Status& status) {
  return RefusalOf(status).reason() == v1::Refusal::RETRY;
}

// Asks until there is an answer.
absl::StatusOr<v1::ProfileReply> Ask(const v1::ProfileRequest& request,
                                     Profiler* profiler) {
  for (;;) {
    auto reply = profiler->Answer(request);
    if (reply.ok() || !IsForNow(reply.status())) return reply;
    absl::SleepFor(absl::Milliseconds(10));
  }
}

TEST(ProfilerTest, WhoAsksAgainIsAnsweredInTheEnd) {
  Profiler profiler("ps-1");
  const absl::Status first = profiler.Answer(RequestOf(7)).status();
  EXPECT_TRUE(IsForNow(first)) << first;
  EXPECT_EQ(first.message(), "ps-1 is being profiled");
  EXPECT_GT(RefusalOf(first).retry_after_ms(), 0);
  const auto reply = Ask(RequestOf(7), &profiler);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->process(), "ps-1");
  // The answer may have been lost.
  EXPECT_TRUE(profiler.Answer(RequestOf(7)).ok());
}

TEST(ProfilerTest, SomebodyElseWaits) {
  Profiler profiler("ps-1");
  EXPECT_FALSE(profiler.Answer(RequestOf(7, 300)).ok());
  const absl::Status second = profiler.Answer(RequestOf(8)).status();
  EXPECT_TRUE(IsForNow(second)) << second;
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("is being profiled by somebody else, for 1s more"));
  // The first one never comes back.
  EXPECT_TRUE(Ask(RequestOf(8), &profiler).ok());
  EXPECT_TRUE(IsForNow(profiler.Answer(RequestOf(7)).status()));
}

TEST(ProfilerTest, ADurationHasBounds) {
  Profiler profiler("ps-1");
  for (const uint32_t wrong : {0u, 99u, 300001u, 4000000000u}) {
    const absl::Status status = profiler.Answer(RequestOf(1, wrong)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("takes 100ms to 5m, not"));
  }
}

TEST(ProfilerTest, WhoEndsGivesUpWhatIsUnderWay) {
  Profiler profiler("ps-1");
  EXPECT_FALSE(profiler.Answer(RequestOf(1, 300000)).ok());
}

}  // namespace
}  // namespace paramd
