#include "process/profile/stack_sampler.h"

#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "process/profile/named_stacks.h"

namespace paramd {

// Has a name that is found, and is not inlined.
__attribute__((noinline)) uint64_t BurnProcessorTime(
    const std::atomic<bool>& stop) {
  volatile uint64_t sum = 0;
  while (!stop) {
    for (uint64_t i = 0; i < 100000; ++i) sum = sum + i * i;
  }
  return sum;
}

namespace {

using ::testing::HasSubstr;

bool Never() { return false; }

// Computes for as long as it lives.
class Busy {
 public:
  Busy() : thread_([this] { BurnProcessorTime(stop_); }) {
    pthread_setname_np(thread_.native_handle(), "busy");
  }
  ~Busy() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(StackSamplerTest, ABusyThreadIsFoundWhereItComputes) {
  const Busy busy;
  const auto samples =
      SampleStacks(absl::Seconds(1), absl::Milliseconds(10), Never);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_GT(samples->cpu, absl::ZeroDuration());
  v1::ProfileReply profile;
  AddNamedStacks(*samples, &profile);
  uint64_t all = 0;
  uint64_t inside = 0;
  for (const v1::SampledStack& stack : profile.stacks()) {
    all += stack.samples();
    ASSERT_GE(stack.names_size(), 2);
    if (profile.names(static_cast<int>(stack.names(0))) != "busy") continue;
    for (const uint32_t name : stack.names()) {
      if (profile.names(static_cast<int>(name)) ==
          "paramd::BurnProcessorTime()") {
        inside += stack.samples();
        break;
      }
    }
  }
  EXPECT_GT(inside, 0);
  EXPECT_GE(2 * inside, all);
}

TEST(StackSamplerTest, WhoWaitsIsNotSampled) {
  const auto samples =
      SampleStacks(absl::Milliseconds(300), absl::Milliseconds(100), Never);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_TRUE(samples->counts.empty());
  EXPECT_EQ(samples->lost, 0);
}

TEST(StackSamplerTest, CancelledItEndsEarly) {
  const Time begin = MonotonicNow();
  const auto samples = SampleStacks(absl::Minutes(10), absl::Milliseconds(10),
                                    [] { return true; });
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_LT(MonotonicNow() - begin, absl::Minutes(1));
}

// A signal that is still on its way finds a handler.
TEST(StackSamplerTest, ALateSignalEndsNobody) {
  ASSERT_TRUE(
      SampleStacks(absl::ZeroDuration(), absl::Milliseconds(10), Never).ok());
  raise(SIGPROF);
}

TEST(StackSamplerTest, OneAtATime) {
  std::atomic<bool> stop = false;
  std::atomic<bool> is_refused = false;
  const auto until = [&stop] { return stop.load(); };
  std::thread first([&] {
    while (!is_refused) {
      (void)SampleStacks(absl::Minutes(1), absl::Seconds(1), until);
    }
  });
  while (!is_refused) {
    const auto second =
        SampleStacks(absl::ZeroDuration(), absl::Seconds(1), Never);
    if (second.ok()) continue;
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr("is being profiled already"));
    is_refused = true;
  }
  stop = true;
  first.join();
}

TEST(StackSamplerTest, AnotherProfilersHandlerIsLeftAlone) {
  struct sigaction other = {};
  struct sigaction ours = {};
  other.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGPROF, &other, &ours), 0);
  const auto samples =
      SampleStacks(absl::ZeroDuration(), absl::Milliseconds(10), Never);
  EXPECT_EQ(samples.status().message(),
            "another profiler of this process handles SIGPROF");
  ASSERT_EQ(sigaction(SIGPROF, &ours, nullptr), 0);
}

TEST(NamedStacksTest, RareStacksBecomeOneOfTheirThread) {
  StackSamples samples;
  for (uintptr_t i = 1; i <= 6000; ++i) {
    samples.counts[Stack{absl::StrCat("thread ", i), {1}}] = i < 1000 ? 1 : 2;
  }
  samples.counts[Stack{"thread 1", {1, 2}}] = 7;
  v1::ProfileReply profile;
  AddNamedStacks(samples, &profile);
  uint64_t all = 0;
  for (const v1::SampledStack& stack : profile.stacks()) {
    all += stack.samples();
  }
  EXPECT_EQ(all, 999u + 2 * 5001 + 7);
  EXPECT_EQ(profile.stacks(0).samples(), 7);
  const v1::SampledStack& last = profile.stacks(profile.stacks_size() - 1);
  EXPECT_EQ(profile.names(static_cast<int>(last.names(1))), "(rare stacks)");
}

TEST(NamedStacksTest, WhatHasNoNameHasItsFiles) {
  EXPECT_EQ(FunctionAt(1), "?");
  EXPECT_THAT(FunctionAt(reinterpret_cast<uintptr_t>(&BurnProcessorTime) + 8),
              HasSubstr("BurnProcessorTime"));
}

}  // namespace
}  // namespace paramd
